// Package staticpods reads the static pods of a node: pods that a kubelet runs because of a file on
// its node or a URL, without an API server
// (https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/).
//
//	static, err := staticpods.New(staticpods.Config{
//		NodeName: "node-1", Path: "/etc/kubernetes/manifests", Complete: core.CompletePod,
//	})
//	if err != nil { ... }
//	go static.Run(ctx)
//	node, err := kubelet.New(kubelet.Config{StaticPods: static, ...})
//
// # Manifests
//
// A directory has one Pod per file, in YAML or JSON. Files whose names begin with a dot, and
// subdirectories, are not read. A URL has a Pod or a PodList. Both are read at once and then every
// [Config.Period]; nothing is watched.
//
// As in Kubernetes, a pod is named NAME-NODENAME, is in the namespace default unless its manifest
// says otherwise, and is bound to the node. Its UID is a hash of the manifest's contents, its
// source and, for a file, the node's name. So a changed manifest is another pod, and an unchanged
// one is the same pod after a restart. The UID and the source are also in annotations
// (kubernetes.io/config.hash, config.source and config.seen). Pods of files tolerate all NoExecute
// taints.
//
// A static pod cannot refer to other API objects, such as secrets, config maps, service accounts
// and claims, and cannot have ephemeral containers.
//
// # Failure
//
// A file that is not a valid manifest has no pod, and its earlier pod ends; the other files are not
// affected. Write a manifest elsewhere, or with a leading dot, and rename it. A directory that does
// not exist has no pods. If a directory or a URL cannot be read, or a URL has no valid manifest, the
// earlier pods stay. The first of two pods with the same name or UID wins; files come before the URL, in
// the order of their names. Each error is logged when it appears or changes.
//
// A manifest has at most 10 MiB. Pipes and devices are not opened.
package staticpods
