// Package warnings compares what planekit's API server warns of with the strategies of kube-apiserver.
package warnings
