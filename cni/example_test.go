package cni_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/planekit/planekit/cni"
)

// Two plugins, here as a function instead of programs.
func Example() {
	plugin := func(_ context.Context, c cni.Call) ([]byte, error) {
		fmt.Println(c.Type, c.Command, c.Args.Get("K8S_POD_NAME"))
		return []byte(`{"cniVersion":"1.0.0","ips":[{"address":"10.244.1.2/24","gateway":"10.244.1.1"}]}`), nil
	}
	list, err := cni.ParseList([]byte(`{
		"cniVersion": "1.0.0",
		"name": "pods",
		"plugins": [{"type": "bridge"}, {"type": "portmap"}]
	}`))
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	invoker, err := cni.New(cni.Config{Dir: dir, Executor: cni.ExecutorFunc(plugin)})
	if err != nil {
		log.Fatal(err)
	}
	pod := cni.RuntimeConfig{
		ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0",
		Args: cni.PodArgs("default", "web", "c1", "some-uid"),
	}
	result, err := invoker.Add(context.Background(), list, pod)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.IPs[0].Address)
	if err := invoker.Del(context.Background(), list, pod); err != nil {
		log.Fatal(err)
	}
	// Output:
	// bridge ADD web
	// portmap ADD web
	// 10.244.1.2/24
	// portmap DEL web
	// bridge DEL web
}
