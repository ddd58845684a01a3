// Puts intervals on lanes so that those of a lane do not overlap.

// `intervals` are {begin, end, ...}. Returns them as an array of lanes, each sorted by begin: a lane is chosen for each
// interval in the order of begins, the first that is free.
export function assignLanes(intervals) {
  const lanes = [];
  for (const interval of [...intervals].sort((a, b) => a.begin - b.begin || b.end - a.end)) {
    const free = lanes.find((lane) => lane.at(-1).end <= interval.begin);
    if (free) free.push(interval);
    else lanes.push([interval]);
  }
  return lanes;
}

// The phases of a request as {index, begin, end} in ms, one after the other up to the request's end.
export function phaseIntervals(request) {
  const intervals = [];
  let begin = request.end - request.total;
  request.phases.forEach((length, index) => {
    const end = Math.min(request.end, begin + length);
    if (end > begin) intervals.push({index, begin, end});
    begin = Math.max(begin, end);
  });
  return intervals;
}
