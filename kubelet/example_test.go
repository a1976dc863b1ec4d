package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/eviction"
)

// A kubelet runs a pod on a runtime in memory. The API here is the tests' own;
// a program would pass an informer of its node's pods, and client resources.
func Example() {
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())

	runtime, err := memruntime.New(memruntime.Config{Socket: filepath.Join(dir, "cri.sock")})
	if err != nil {
		panic(err)
	}
	runtimeDone := make(chan error, 1)
	serving, stopServing := context.WithCancel(context.Background())
	go func() { runtimeDone <- runtime.Run(serving) }()
	<-runtime.Ready()
	client, err := cri.Dial(ctx, filepath.Join(dir, "cri.sock"), cri.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	api := newAPI()
	node, err := kubelet.New(kubelet.Config{
		NodeName: "node-1",
		Root:     filepath.Join(dir, "root"),
		LogRoot:  filepath.Join(dir, "logs"),
		PodCIDR:  "10.1.0.0/24",
		Runtime:  client, Images: client,
		Pods: api.pods, PodStatus: podAPI{api}, Nodes: nodeAPI{api}, Leases: leaseAPI{api},
		// The machine is not the kubelet's own: it may have little room for other reasons.
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}},
	})
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	<-node.Ready()

	api.create(webPod("web"))
	for {
		api.mu.Lock()
		pod, _ := api.pods.Get("default/web")
		changed := api.changed
		api.mu.Unlock()
		if pod.Status.Phase == corev1.PodRunning {
			fmt.Println(pod.Name, pod.Status.Phase, pod.Status.PodIP)
			break
		}
		<-changed
	}
	cancel()
	fmt.Println(<-done)
	stopServing()
	<-runtimeDone
	// Output:
	// web Running 10.1.0.2
	// <nil>
}
