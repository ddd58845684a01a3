// Short names of workers: what tells their addresses apart. Pods are named by their first label, workers of one host by
// their ports, and others by what is left when equal ports are dropped.

const split = (address) => {
  const colon = address.lastIndexOf(":");
  return colon < 0 ? {host: address, port: ""} : {host: address.slice(0, colon), port: address.slice(colon)};
};

const isLiteral = (host) => host.startsWith("[") || /^[\d.]+$/.test(host);

let names = new Map();

function shorten(addresses) {
  const parts = addresses.map(split);
  const isUnique = (values) => new Set(values).size === values.length;
  const labels = parts.map(({host}) => (isLiteral(host) ? host : host.split(".")[0]));
  if (addresses.length > 1 && new Set(labels).size === 1) return parts.map(({port}) => port);
  return isUnique(labels) ? labels : addresses;
}

// The workers that there are now. Others keep the names that they had.
export function learnNames(addresses) {
  const distinct = [...new Set(addresses)].filter(Boolean);
  const short = shorten(distinct);
  if (names.size > 4096) names = new Map();
  distinct.forEach((address, index) => names.set(address, short[index] || address));
}

export const nameOf = (address) => names.get(address) ?? address;
