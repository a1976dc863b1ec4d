package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListIDs returns the ids of all sandboxes and containers of the runtime at a socket.
func ListIDs(ctx context.Context, socket string) (map[string]bool, error) {
	containers, err := Dial(ctx, socket, Options{})
	if err != nil {
		return nil, err
	}
	defer containers.Close()
	sandboxes, err := containers.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	inside, err := containers.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, s := range sandboxes.Items {
		ids[s.GetId()] = true
	}
	for _, c := range inside.Containers {
		ids[c.GetId()] = true
	}
	return ids, nil
}
