"""What somebody would run in a page who could write into it, and how its content security policy stops that."""

INJECTED = """
    window.stopped = [];
    document.addEventListener("securitypolicyviolation", (event) => stopped.push(event.effectiveDirective));
    const add = (markup) => document.body.insertAdjacentHTML("beforeend", markup);
    add("<img src=x onerror='window.ran = 1'><style>body{display:none}</style>");
    add("<i style='color:red'></i><iframe src='/'></iframe>");
    const script = document.createElement("script");
    script.textContent = "window.ran = 2";
    document.body.append(script);
    fetch("http://192.0.2.1/").catch(() => {});
    new Image().src = "http://192.0.2.1/pixel.png";
"""
STOPPED = {
    "script-src-attr",
    "style-src-elem",
    "style-src-attr",
    "script-src-elem",
    "connect-src",
    "frame-src",
    "img-src",
}


def inject(page):
    """The browser's page is asked to do all of it, and does nothing."""
    page.js(INJECTED)
    page.wait(lambda: set(page.js("return stopped")) >= STOPPED, f"violations of {STOPPED}")
    assert page.js("return window.ran") is None
