// Package kubelets runs the same pods on the stock kubelet and on planekit's, under a stock API
// server and under planekit's, each on a containerd of its own, and compares the results: the
// status of each pod, and the events about it.
//
//	reference := kubelets.Run(t, kubelets.Side{Server: kubelets.StockServer, Kubelet: kubelets.StockKubelet}, kubelets.Scenarios(), nil)
//
// Pods use the host's network, so that the machine needs no bridge. The result of a pod is taken
// twice: when it has reached the state that its scenario waits for, and when it has been deleted.
// Times, identifiers and addresses are left out. A known difference is a row of [Known].
package kubelets
