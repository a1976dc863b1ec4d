package cri_test

import (
	"context"
	"maps"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestListIDs checks that sandboxes and containers are listed, and that a runtime that is not there is an
// error.
func TestListIDs(t *testing.T) {
	path := socket(t)
	serve(t, memruntime.Config{Socket: path})
	client, err := cri.Dial(t.Context(), path, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "default", Uid: "u"},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}},
	}
	want := map[string]bool{}
	sandbox, err := client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	want[sandbox.PodSandboxId] = true
	image := &runtimeapi.ImageSpec{Image: "nginx"}
	if _, err := client.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: image}); err != nil {
		t.Fatal(err)
	}
	made, err := client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: image}})
	if err != nil {
		t.Fatal(err)
	}
	want[made.ContainerId] = true
	if got, err := cri.ListIDs(t.Context(), path); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := cri.ListIDs(ctx, socket(t)); err == nil {
		t.Errorf("a runtime that is not there has %v", got)
	}
}
