package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
)

// operation is one row of the table of requests.
type operation struct {
	name              string
	clients, requests int
	// prepare makes what the requests need, outside what is measured.
	prepare func(ctx context.Context, s *side, round int) (func(client, n int) wire.Request, error)
}

// Namespaces with pods in them, by how many there are in the full form.
const (
	small, smallPods = "small", 1_000
	large, largePods = "large", 10_000
)

// planned are the operations that are measured.
func (b *bench) planned() []operation {
	var all []operation
	add := func(name string, clients, requests int, prepare func(context.Context, *side, int) (func(int, int) wire.Request, error)) {
		if b.operations == nil || b.operations.MatchString(name) {
			all = append(all, operation{name, clients, b.scale(requests), prepare})
		}
	}
	for _, clients := range []int{1, 8, 64} {
		n := map[int]int{1: 1000, 8: 4000, 64: 8000}[clients]
		add("create pod", clients, n, creates(clients))
		add("get pod", clients, 2*n, b.gets(""))
		add("get pod, resourceVersion=0", clients, 2*n, b.gets("?resourceVersion=0"))
		add("update pod", clients, n, updates)
		add("patch pod, strategic merge", clients, n, patches)
	}
	for _, size := range []struct {
		namespace      string
		pods, requests int
	}{{small, smallPods, 100}, {large, largePods, 20}} {
		for _, media := range []struct{ name, accept string }{{"protobuf", protobuf}, {"JSON", asJSON}, {"Table", asTable}} {
			add(fmt.Sprintf("list %d pods, %s", b.scale(size.pods), media.name), 1, size.requests, lists(size.namespace, "", media.accept))
		}
		name := fmt.Sprintf("list %d pods, protobuf", b.scale(size.pods))
		add(name, 4, size.requests, lists(size.namespace, "", protobuf))
		add(name+", resourceVersion=0", 1, size.requests, lists(size.namespace, "?resourceVersion=0", protobuf))
	}
	return all
}

// requests loads the servers with requests, one kind after the other.
func (b *bench) requests(ctx context.Context) (err error) {
	sides, stop, err := b.startAll(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, s := range sides {
		if err := b.fillNamespaces(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	operations := b.planned()
	if len(operations) == 0 {
		return errors.New("no operation has such a name")
	}
	results := make([]row, len(operations))
	for round := range b.rounds {
		for i, o := range operations {
			results[i].name, results[i].clients = o.name, o.clients
			for _, s := range sides {
				f, err := o.run(ctx, s, round)
				if err != nil {
					return fmt.Errorf("%s, %s, %d clients: %w", s.kind, o.name, o.clients, err)
				}
				results[i].add(s.kind, f)
			}
		}
	}
	printRequests(b.out, b.kinds, results)
	return nil
}

func (o operation) run(ctx context.Context, s *side, round int) (figures, error) {
	request, err := o.prepare(ctx, s, round)
	if err != nil {
		return figures{}, err
	}
	return s.load(ctx, o.clients, o.requests, request)
}

func (b *bench) fillNamespaces(ctx context.Context, s *side) error {
	for _, n := range []struct {
		name string
		pods int
	}{{small, smallPods}, {large, largePods}, {edited, editedPods}} {
		if err := s.namespace(ctx, n.name); err != nil {
			return err
		}
		pods := b.scale(n.pods)
		if n.name == edited {
			pods = n.pods // one for each client
		}
		c, err := newCreator(n.name, "pod-")
		if err == nil {
			err = s.fill(ctx, c, 0, pods)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func creates(clients int) func(context.Context, *side, int) (func(int, int) wire.Request, error) {
	return func(ctx context.Context, s *side, round int) (func(int, int) wire.Request, error) {
		namespace := fmt.Sprintf("create-%d-%d", clients, round)
		if err := s.namespace(ctx, namespace); err != nil {
			return nil, err
		}
		c, err := newCreator(namespace, "pod-")
		if err != nil {
			return nil, err
		}
		return func(_, n int) wire.Request { return c.request(n) }, nil
	}
}

func (b *bench) gets(query string) func(context.Context, *side, int) (func(int, int) wire.Request, error) {
	return func(context.Context, *side, int) (func(int, int) wire.Request, error) {
		c, err := newCreator(large, "pod-")
		if err != nil {
			return nil, err
		}
		pods := b.scale(largePods)
		return func(int, int) wire.Request {
			return wire.Request{Method: "GET", Path: c.path + "/" + c.name(rand.IntN(pods)) + query, Accept: protobuf}
		}, nil
	}
}

func lists(namespace, query, accept string) func(context.Context, *side, int) (func(int, int) wire.Request, error) {
	return func(context.Context, *side, int) (func(int, int) wire.Request, error) {
		return func(int, int) wire.Request {
			return wire.Request{Method: "GET", Path: "/api/v1/namespaces/" + namespace + "/pods" + query, Accept: accept}
		}, nil
	}
}

// Pods that are changed: each client has one of its own, so none waits for
// another's.
const (
	edited, editedPods = "edited", 64
)

// updates writes each client's pod back with one of two values of a label, in
// turns, so that every update changes something.
func updates(ctx context.Context, s *side, _ int) (func(int, int) wire.Request, error) {
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

func patches(_ context.Context, _ *side, round int) (func(int, int) wire.Request, error) {
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
