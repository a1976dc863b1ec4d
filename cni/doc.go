// Package cni connects containers to networks by running CNI plugins
// (https://www.cni.dev/docs/spec/, versions 0.3.1 to 1.1.0).
//
// A [List] is a network: the plugins to run. An [Invoker] runs them:
//
//	list, err := cni.LoadDir("/etc/cni/net.d")
//	invoker, err := cni.New(cni.Config{Path: []string{"/opt/cni/bin"}})
//	result, err := invoker.Add(ctx, list, cni.RuntimeConfig{
//		ContainerID: id, NetNS: "/run/netns/web", IfName: "eth0",
//	})
//	...
//	err = invoker.Del(ctx, list, runtime)
//
// A container, network and interface name identify an attachment. Add runs the plugins in order and
// passes the result of each to the next. Del runs them in reverse and passes each the final result,
// which Add has stored in a directory. Calls for one container never run in parallel, not even in
// several processes that share the directory.
//
// Failures: before Add returns an error, it runs DEL on every plugin, with a context of its own. If
// that fails too, the attachment stays on record, and Del or GC finishes the cleanup. A second Add
// of a recorded attachment is refused. Del of an unknown or partly removed attachment succeeds. A
// plugin that exceeds its timeout is killed with all its children.
//
// Not included: the caller creates network namespaces. Configurations before version 0.3.1 are
// refused.
//
// Package skel helps to write plugins; the other subpackages are plugins.
package cni
