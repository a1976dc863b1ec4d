package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/planekit/planekit/bench/wire"
)

// sender returns the requests of one load, by client and number.
type sender = func(client, n int) wire.Request

// operation is one row of the table of requests.
type operation struct {
	section, name string
	clients       int
	amount        amount
	// prepare creates the objects for the requests, outside of the measurement.
	prepare func(ctx context.Context, s *side, round int) (sender, error)
}

// label returns the text by which an operation is selected.
func (o operation) label() string {
	return o.name + ", " + count(o.clients, "client")
}

// These are namespaces with pods, named by the number of pods in the full form.
const (
	small, smallPods = "small", 1_000
	large, largePods = "large", 10_000
)

// These are the minimum duration and number of read requests for each cell, side and round. The
// number of writes is the same for each side, so that all have the same number of objects.
const (
	getLasting             = time.Second
	listLasting, fewestGot = 1200 * time.Millisecond, 4
)

// These are the names of operations that bars refer to.
const (
	createPod, getPod, updatePod, patchPod = "create pod", "get pod", "update pod", "patch pod, strategic merge"

	fromCache = ", resourceVersion=0"
)

func listName(pods int, media string) string { return fmt.Sprintf("list %d pods, %s", pods, media) }

// medias are the encodings of lists.
var medias = []struct{ name, accept string }{{"JSON", asJSON}, {"protobuf", protobuf}, {"Table", asTable}}

// zipped marks the lists that are also measured compressed, as Go's own client requests large
// answers, and so kubectl and client-go.
const zipped = ", gzip"

// planned returns the operations to measure.
func (b *bench) planned() []operation {
	var all []operation
	add := func(section, name string, clients int, a amount, prepare func(context.Context, *side, int) (sender, error)) {
		o := operation{section, name, clients, a, prepare}
		if b.wants(section) && (b.operations == nil || b.operations.MatchString(o.label())) {
			all = append(all, o)
		}
	}
	for _, clients := range []int{1, 8, 64} {
		writes := amount{requests: b.scale(map[int]int{1: 600, 8: 2500, 64: 6000}[clients])}
		reads := amount{requests: fewestGot, lasting: b.lasting(getLasting)}
		add("create", createPod, clients, writes, creates(clients))
		add("get", getPod, clients, reads, b.gets(""))
		add("get", getPod+fromCache, clients, reads, b.gets("?resourceVersion=0"))
		add("update", updatePod, clients, writes, updates)
		add("patch", patchPod, clients, writes, patches)
	}
	for _, size := range []struct {
		namespace string
		pods      int
	}{{small, smallPods}, {large, largePods}} {
		for _, media := range medias {
			for _, clients := range []int{1, 4} {
				name := listName(b.scale(size.pods), media.name)
				lasting := amount{requests: fewestGot, lasting: b.lasting(listLasting)}
				request := allOf(size.namespace, media.accept)
				add("list", name, clients, lasting, lists(request))
				if size.namespace == large && media.accept != asTable {
					request.Gzip = true
					add("list", name+zipped, clients, lasting, lists(request))
					request.Gzip = false
				}
				request.Path += "?resourceVersion=0"
				add("list", name+fromCache, clients, lasting, lists(request))
			}
		}
	}
	return all
}

// requests loads the servers with requests, one operation after the other.
func (b *bench) requests(ctx context.Context) (err error) {
	operations := b.planned()
	if len(operations) == 0 {
		return errors.New("no operation has such a name")
	}
	sides, stop, err := b.startAll(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, s := range sides {
		if err := b.fillNamespaces(ctx, s, operations); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	if err := b.profileFromNow(ctx, sides); err != nil {
		return err
	}
	results := make([]row, len(operations))
	for round := range b.rounds {
		for i, o := range operations {
			results[i].name, results[i].clients = o.name, o.clients
			for _, s := range inTurn(sides, round+i) {
				f, err := o.run(ctx, s, round)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.kind, o.label(), err)
				}
				results[i].add(s.kind, f)
			}
		}
	}
	b.results.requests = results
	printRequests(b.out, b.kinds, results)
	return nil
}

func (o operation) run(ctx context.Context, s *side, round int) (figures, error) {
	request, err := o.prepare(ctx, s, round)
	if err != nil {
		return figures{}, err
	}
	return s.load(ctx, o.clients, o.amount, request)
}

// fillNamespaces creates the namespaces of the operations, with their pods.
func (b *bench) fillNamespaces(ctx context.Context, s *side, operations []operation) error {
	needed := func(sections ...string) bool {
		return slices.ContainsFunc(operations, func(o operation) bool { return slices.Contains(sections, o.section) })
	}
	for _, n := range []struct {
		name   string
		pods   int
		needed bool
	}{
		{small, b.scale(smallPods), needed("list")},
		{large, b.scale(largePods), needed("list", "get")},
		{edited, editedPods, needed("update", "patch")},
	} {
		if !n.needed {
			continue
		}
		if err := s.namespace(ctx, n.name); err != nil {
			return err
		}
		c, err := newCreator(n.name, "pod-")
		if err != nil {
			return err
		}
		if _, err := s.fill(ctx, c, 0, n.pods); err != nil {
			return err
		}
	}
	return nil
}

func creates(clients int) func(context.Context, *side, int) (sender, error) {
	return func(ctx context.Context, s *side, round int) (sender, error) {
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

func (b *bench) gets(query string) func(context.Context, *side, int) (sender, error) {
	return func(context.Context, *side, int) (sender, error) {
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

func lists(request wire.Request) func(context.Context, *side, int) (sender, error) {
	return func(ctx context.Context, s *side, _ int) (sender, error) {
		return func(int, int) wire.Request { return request }, s.once(ctx, request)
	}
}
