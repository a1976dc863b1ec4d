// Package node holds the controllers of nodes and of the pods on them: [Lifecycle] taints nodes
// that do not report, [TaintEviction] deletes pods that do not tolerate a taint, [PodGarbage] deletes pods
// of deleted nodes, and [IPAM] assigns ranges of pod addresses.
package node
