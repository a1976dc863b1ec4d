// Package nodeimages brings images to the nodes of a running cluster, from another process, and lists and removes them.
// It has the command "image" of the cluster:
//
//	root.AddCommand(nodeimages.Command(dataDir))
//
// The cluster records its nodes in its data directory:
//
//	nodes, err := nodeimages.NewRecords(dir)
//	err = nodes.Add("node-1", nodeimages.Containerd, socket)
//
// Images get into the namespace of Kubernetes in each node's containerd, as if they had been pulled: a pod whose
// imagePullPolicy is not Always runs them without a registry. Containers that are simulated need no images.
//
// It knows the nodes of one data directory. Nodes that joined from elsewhere have data directories of their own.
package nodeimages
