// Package stock builds and runs the stock programs of a control plane: etcd,
// kube-apiserver and kube-controller-manager, for tests that put planekit beside
// them or between them.
//
//	bin, err := stock.Build(ctx)
//	server := stock.NewServer(t, bin)
//	stock.NewManager(t, bin, stock.ManagerConfig{Kubeconfig: server.Kubeconfig, ...})
//
// The programs are the mains of a few lines in bench/cmd. Building them takes
// minutes the first time; Go keeps what it compiled, and the linked programs stay
// in bin/stock of the repository, so that later runs begin at once.
//
// Every process and every file is gone when the test ends.
package stock
