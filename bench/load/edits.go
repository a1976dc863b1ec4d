package main

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
)

// Each client changes a pod of its own, so that none waits for another's.
const (
	edited, editedPods = "edited", 64
)

// updates writes each client's pod with alternating values of a label, so that every update is a
// change.
func updates(ctx context.Context, s *side, _ int) (sender, error) {
	c, err := newCreator(edited, "pod-")
	if err != nil {
		return nil, err
	}
	bodies := make([][2][]byte, editedPods)
	for i := range bodies {
		pod, err := typed.Pods(s.api).Get(ctx, edited, c.name(i))
		if err != nil {
			return nil, err
		}
		for turn := range 2 {
			if bodies[i][turn], err = withTurn(pod, turn); err != nil {
				return nil, err
			}
		}
	}
	turns := make([]int, editedPods)
	return func(client, _ int) wire.Request {
		turns[client]++
		return wire.Request{
			Method: "PUT", Path: c.path + "/" + c.name(client), Accept: protobuf, ContentType: protobuf,
			Body: bodies[client][turns[client]%2],
		}
	}, nil
}

func withTurn(pod *corev1.Pod, turn int) ([]byte, error) {
	pod = pod.DeepCopy()
	pod.ResourceVersion = ""
	pod.Labels["turn"] = fmt.Sprint("of-", turn)
	return encode(pod, "Pod")
}

func patches(_ context.Context, _ *side, round int) (sender, error) {
	c, err := newCreator(edited, "pod-")
	if err != nil {
		return nil, err
	}
	return func(client, n int) wire.Request {
		return wire.Request{
			Method: "PATCH", Path: c.path + "/" + c.name(client), Accept: protobuf,
			ContentType: "application/strategic-merge-patch+json",
			Body:        fmt.Appendf(nil, `{"metadata":{"labels":{"turn":"%d-%d"}}}`, round, n),
		}
	}, nil
}
