// Package cni connects containers to networks by running CNI plugins
// (https://www.cni.dev/docs/spec/, versions 0.3.1 to 1.1.0).
//
// A [List] says which plugins make up a network. An [Invoker] runs them:
//
//	list, err := cni.LoadDir("/etc/cni/net.d")
//	invoker, err := cni.New(cni.Config{Path: []string{"/opt/cni/bin"}})
//	result, err := invoker.Add(ctx, list, cni.RuntimeConfig{
//		ContainerID: id, NetNS: "/run/netns/web", IfName: "eth0",
//	})
//	...
//	err = invoker.Del(ctx, list, runtime)
//
// The model: one container, network and interface name are one attachment.
// Add runs the plugins in order and hands each the result of the one before;
// Del runs them in reverse and hands each the final result, which Add kept in
// a directory. Calls for one container never run in parallel, not even from
// several processes which share the directory.
//
// How it fails: an Add that fails has already run DEL on every plugin, with a
// context of its own, when it returns. Should that fail as well, the
// attachment stays on record; Del or GC finishes the work. A second Add of an
// attachment on record is refused. Del of something unknown or half gone
// succeeds. A plugin that outlives its time is killed with all its children.
//
// What it leaves out: network namespaces are made by the caller. Configurations
// before version 0.3.1 are refused.
//
// Package skel helps to write plugins; the packages below are plugins.
package cni
