// Command load puts the same load on planekit's API server and on a stock
// kube-apiserver with the same etcd, prints the results of each (requests per
// second, latency, processor time, memory), and compares them with the bars.
//
//	go run ./load [-short] [-only create,list] [-sides planekit,kube-apiserver] [-rounds 3] [-most 100000] [-bin DIR] [-profile DIR]
//
// It prints Markdown. All servers run side by side and are measured in turn,
// cell by cell and round by round, each time in the reverse order of the time
// before; figures are medians of the rounds, ratios medians of the ratios of each
// round. The full form takes less than twenty minutes on two processors. The
// short one, of a tenth of the load, takes a minute: it shows that everything
// works and is no evidence of speed.
//
// A client is one HTTP/2 connection over TLS with one request at a time (package wire). Clients run on
// the same machine, so that server, etcd and clients share its processors. So a faster server also
// has a higher load, which increases the latency of a fan-out at full speed; a fan-out is therefore
// also measured at a fixed rate.
//
// Both sides are given the same:
//
//   - an etcd of its own for each, the same program with the same flags, on the
//     same disk, its history compacted every 5 minutes by the API server;
//   - the same bytes of the same pod in protobuf to create and update, and the
//     same patch in JSON, over TLS and HTTP/2; answers are compressed only where the
//     row says so;
//   - the same bearer token from a file of tokens, and RBAC to decide. The token is
//     that of a member of system:masters, whom both let pass before they look at
//     roles, and whom neither holds to its limits of requests in flight;
//   - the same admission: namespace life cycle and service accounts. That is all
//     examples/apiserver has, so kube-apiserver's other plugins are switched off; what
//     it does by default, with webhooks, policies, quota and tolerations, is measured
//     with -default-admission. Both check pods and keep their managed fields;
//   - no audit log, and what a program does by default otherwise: kube-apiserver
//     measures its requests for /metrics and serves custom resources and aggregated
//     APIs, of which examples/apiserver does the latter alone, and no metrics.
//
// One request for each list is sent before it is measured, so what a server does
// once for many lists, as planekit does with encoding, is not in the figure.
// Memory is read after a list of all pods, without which a server may not have
// begun to keep them.
package main
