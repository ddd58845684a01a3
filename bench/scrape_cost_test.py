"""python3 -m unittest scrape_cost_test: a scraper that reads a server, and costs and verdicts of given windows."""

import http.server
import threading
import unittest

import scrape_cost


def row(pairs, rate=1):
    (only,) = scrape_cost.summarize({"7": pairs}, {"7": ("decode", "h:1")}, {"h:1": 9000}, rate, 0.5)
    return only


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status = 200
    seen = []

    def do_GET(self):
        self.seen.append((self.path, self.headers["Accept-Encoding"], self.client_address))
        self.send_response(self.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"x\n")

    def log_message(self, *_):
        pass


class ScrapeCostTest(unittest.TestCase):
    def test_the_cost_is_the_median_of_the_differences_of_pairs(self):
        found = row([(0.010, 0.012)] * 6 + [(0.5, 0.9)])
        self.assertAlmostEqual(found["cost"], 0.2)
        self.assertEqual((found["role"], found["bytes"]), ("decode", 9000))

    def test_a_cost_whose_interval_reaches_the_limit_is_not_below_it(self):
        self.assertTrue(row([(0.01, 0.0149)] * 6)["below_limit"])
        self.assertFalse(row([(0.01, 0.0149)] * 5 + [(0.01, 0.0151)])["below_limit"])

    def test_fewer_than_six_pairs_have_no_verdict(self):
        found = row([(0.01, 0.01)] * 5)
        self.assertFalse(found["below_limit"])
        self.assertIn("too few pairs", scrape_cost.table([found], 0.5))

    def test_the_cost_is_that_of_one_scrape_a_second(self):
        self.assertAlmostEqual(row([(0.01, 0.03)] * 6, rate=20)["cost"], 0.1)

    def scrape(self, status):
        Handler.status, Handler.seen = status, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        address = f"127.0.0.1:{server.server_port}"
        scraper = scrape_cost.Scraper([address], rate=1000)
        try:
            with scraper:
                while scraper.scrapes < 3 and scraper.error is None:
                    scraper._thread.join(0.001)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        return scraper, address

    def test_a_scraper_reads_metrics_again_and_again_over_one_connection(self):
        scraper, address = self.scrape(200)
        self.assertGreaterEqual(len(Handler.seen), 3)
        self.assertEqual(len(set(Handler.seen)), 1)
        self.assertEqual(Handler.seen[0][:2], ("/metrics", "gzip"))
        self.assertEqual(scraper.bytes, {address: 2})

    def test_a_scrape_that_fails_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "status 503"):
            self.scrape(503)


if __name__ == "__main__":
    unittest.main()
