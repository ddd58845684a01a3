"""A headless Chromium that shows the dashboard, and what tests ask of it."""

import contextlib
import json
import os
import pathlib
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

DRIVER = "/usr/bin/chromedriver"
WAIT_S = 10
# Browsers write a lot; nobody needs it on a disk.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
POLL_S = 0.02


class Browser:
    """One page at a time; open() loads it afresh with nothing remembered."""

    def __init__(self, folder):
        self.downloads = pathlib.Path(folder) / "downloads"
        options = webdriver.ChromeOptions()
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--no-first-run",
            "--no-proxy-server",
            "--disable-features=BackForwardCache",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads), eventsEnabled=False)

    def close(self):
        self.driver.quit()

    def cdp(self, command, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def resize(self, width, height, phone=False, scale=1):
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )

    def prefer(self, **features):
        """Media features, such as prefers_color_scheme="light"."""
        self.cdp(
            "Emulation.setEmulatedMedia",
            features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()],
        )

    def open(self, address, width=1440, height=900, phone=False, scale=1):
        self.resize(width, height, phone, scale)
        self.driver.get("about:blank")
        self.forget_logs()
        self.driver.get(f"http://{address}/")

    def forget_logs(self):
        self.driver.get_log("browser")
        self.driver.get_log("performance")

    def console(self):
        """What the page and its loading wrote to the console since the last call."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requested_urls(self):
        """Every request since the last call, also those that were blocked."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """The text of the first such element, with spaces as they show."""
        return self.js("return document.querySelector(arguments[0]).textContent", selector).strip()

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent.trim())", selector)

    def visible(self, selector):
        return self.js("return document.querySelector(arguments[0])?.checkVisibility() ?? false", selector)

    def click(self, selector):
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})", selector)
        self.find(selector).click()

    def sizes(self):
        return self.js("return batonDebug.sizes()")

    def show(self, selector):
        """Scrolls there and waits until what is there has been drawn."""
        self.js("document.querySelector(arguments[0]).scrollIntoView({behavior: 'instant'})", selector)
        self.frames(3)

    def frames(self, number):
        """Waits until the browser has drawn so many frames."""
        self.driver.execute_async_script(
            """
            let left = arguments[0];
            const done = arguments[1];
            const step = () => (left-- > 0 ? requestAnimationFrame(step) : done());
            step();""",
            number,
        )

    def wait(self, condition, what, timeout_s=WAIT_S):
        """Polls until condition() is truthy and returns its value."""
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
            time.sleep(POLL_S)

    def wait_text(self, selector, text):
        self.wait(lambda: text in self.text(selector), f"{text!r} in {selector}")

    def downloaded(self, click):
        """The text of the file that a click on a selector offers."""
        # A second file of the same name would replace the first one.
        for old in self.downloads.glob("*"):
            old.unlink()
        self.click(click)

        def finished():
            return [file for file in self.downloads.glob("*") if file.suffix in (".csv", ".json")]

        (file,) = self.wait(finished, f"a file from {click}")
        return file.name, file.read_bytes().decode()


@contextlib.contextmanager
def browser():
    with tempfile.TemporaryDirectory(dir=SCRATCH, ignore_cleanup_errors=True) as folder:
        chromium = Browser(folder)
        try:
            yield chromium
        finally:
            chromium.close()
