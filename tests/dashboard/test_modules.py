"""The page's modules by themselves, in the browser that runs them, on seeded inputs."""

import random

import pytest

from synthetic_cluster import Shape, SyntheticCluster

SEED = 20


@pytest.fixture
def run(page, router):
    """run(script, *arguments): the value of an async function body in the page, in which `load` imports a module."""
    page.open(router.address)
    page.driver.set_script_timeout(20)

    def run_script(script, *arguments):
        result = page.driver.execute_async_script(
            f"""
            const given = arguments[0], done = arguments[1];
            const load = (name) => import(new URL(name, location.href));
            const fail = (error) => done({{error: String(error.stack)}});
            (async () => {{ {script} }})().then((value) => done({{value}}), fail);
        """,
            arguments,
        )
        assert "error" not in result, result["error"]
        return result["value"]

    return run_script


def test_quantiles_are_within_half_a_per_cent_also_after_removals(run):
    rng = random.Random(SEED)
    values = [rng.lognormvariate(4, 2) for _ in range(5_000)]
    left = sorted(values[2_000:])
    shares = [0, 0.01, 0.5, 0.9, 0.99, 1]
    found = run(
        """
        const {Quantiles} = await load("quantiles.js"), [values, shares] = given, set = new Quantiles();
        if (set.at(0.5) !== null) throw new Error("a quantile of nothing");
        for (const value of values) set.add(value);
        set.add(null);
        for (const value of values.slice(0, 2000)) set.remove(value);
        return [set.size, ...shares.map((share) => set.at(share))];""",
        values,
        shares,
    )
    assert found[0] == 3_000
    exact = [left[max(0, round(share * 3_000) - 1)] for share in shares]
    assert found[1:] == pytest.approx(exact, rel=0.0051)


def test_a_list_that_is_kept_up_to_date_equals_one_that_is_sorted_anew(run):
    cluster = SyntheticCluster(Shape(seed=SEED, requests_per_s=40, failure_share=0.05), 400)
    assert (
        run(
            """
        const {Store} = await load("store.js"), {RequestView, SORTS} = await load("request_view.js");
        const {readRequests} = await load("wire.js");
        const store = new Store(), kept = new RequestView(store);
        const filters = [{}, {outcome: "not ok"}, {worker: "10.0.2.11:50061"}, {outcome: "ok", text: "a1"}];
        let step = 0, compared = 0;
        for (let begin = 0; begin < given[0].length; begin += 37, ++step) {
          const added = readRequests(given[0].slice(begin, begin + 37));
          kept.update(added, store.addRequests(added));
          if (step % 9 !== 0) continue;
          const anew = new RequestView(store);
          Object.assign(anew, {filter: kept.filter, sort: kept.sort, descending: kept.descending});
          anew.rebuild();
          compared += anew.rows.length;
          if (anew.rows.length !== kept.rows.length || anew.rows.some((row, i) => row !== kept.rows[i])) {
            throw new Error(`they differ at step ${step}, sorted by ${kept.sort}`);
          }
          for (const share of [0.5, 0.99]) {
            if (anew.ttft.at(share) !== kept.ttft.at(share)) throw new Error(`quantiles differ at step ${step}`);
          }
          if (kept.rows.some((row, i) => kept.indexOf(row) !== i)) throw new Error("a row is not found");
          kept.setSort([...SORTS.keys()][(step / 9) % SORTS.size], step % 2 === 0);
          kept.setFilter({outcome: "", worker: "", text: "", ...filters[(step / 9) % filters.length]});
        }
        return compared;""",
            cluster.requests[:14_000],
        )
        > 50_000
    )


def test_lanes_never_overlap_and_are_as_few_as_can_be(run):
    cluster = SyntheticCluster(Shape(seed=SEED, bursts=((50, 60, 5),)), 120)
    spans = [(request["end_ms"] - request["total_ms"], request["end_ms"]) for request in cluster.requests]
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    depth = most = 0
    for _, change in edges:
        depth += change
        most = max(most, depth)
    slots, lanes = run(
        """
        const {Store} = await load("store.js"), {readRequests} = await load("wire.js");
        const {assignLanes} = await load("lanes.js");
        const store = new Store(), requests = readRequests(given[0]);
        store.addRequests(requests);
        const spans = requests.map((request, index) => ({index, begin: request.end - request.total, end: request.end}));
        const lanes = assignLanes(spans).map((lane) => lane.map(({index}) => index));
        return [requests.map((request) => request.slot), lanes];
    """,
        cluster.requests,
    )
    by_slot = {}
    for index, slot in enumerate(slots):
        by_slot.setdefault(slot, []).append(index)
    for name, found in (("slots", list(by_slot.values())), ("lanes", lanes)):
        assert sum(map(len, found)) == len(spans)
        assert len(found) == most, name
        for lane in found:
            ordered = sorted(spans[index] for index in lane)
            assert all(end <= begin for (_, end), (begin, _) in zip(ordered, ordered[1:])), name


def test_events_are_the_same_however_the_stream_is_cut(run):
    rng = random.Random(SEED)
    stream = "".join(
        rng.choice(
            (
                ": a comment\n\n",
                'event: snapshot\ndata: {"a":1}\n\n',
                "data: first\ndata:second\n\n",
                "\n",
                'event: requests\r\ndata: ["ü"]\r\n\r\n',
                "event: alone\n\n",
                "retry: 5\n\n",
            )
        )
        for _ in range(60)
    )
    cuts = [sorted(rng.sample(range(1, len(stream)), rng.randint(0, 40))) for _ in range(50)]
    whole, others = run(
        """
        const {EventParser} = await load("events.js"), [stream, cuts] = given;
        const parse = (pieces) => {
          const parser = new EventParser(), events = [];
          for (const piece of pieces) parser.feed(piece, (name, data) => events.push([name, data]));
          return events;
        };
        return [parse([stream]), cuts.map((cut) => parse([0, ...cut].map((from, i) => stream.slice(from, cut[i]))))];
    """,
        stream,
        cuts,
    )
    assert ["snapshot", '{"a":1}'] in whole and ["", "first\nsecond"] in whole and ["requests", '["ü"]'] in whole
    assert all(name != "alone" for name, _ in whole)
    for other in others:
        assert other == whole
