// Package service measures planekit's service proxy beside stock kube-proxy in its nftables mode: how
// long the change of one service takes until the kernel has it, with the processor time of the process
// and its children, and how fast connections are made and data flows. It needs root and nft:
//
//	go test -C bench -tags grpcnotrace -run '^$' -bench . -benchtime 1x ./service
package service
