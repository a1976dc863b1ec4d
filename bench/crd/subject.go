package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/plane/customresources"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// subject is a running server under measurement.
type subject struct {
	server *peer.Process
	files  *peer.Stock
	conn   *wire.Conn
	buffer []byte
	// versions are the resourceVersions of the first objects, which updates of custom objects must have.
	versions [1000]string
}

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgetsPath     = "/apis/example.com/v1/namespaces/default/widgets"
	objects         = 10_000
)

// definition returns a definition with twelve fields, two rules, a status and columns.
func definition(plural, kind string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%[1]s","singular":"%[3]s","kind":"%[2]s","listKind":"%[2]sList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["size"],
"x-kubernetes-validations":[{"rule":"self.size <= 100"},{"rule":"self.size >= oldSelf.size || self.size < 1000"}],
"properties":{"size":{"type":"integer","minimum":0},"color":{"type":"string","enum":["red","green"],"default":"red"},"image":{"type":"string","maxLength":200},
"labels":{"type":"object","additionalProperties":{"type":"string"}},
"ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
"properties":{"name":{"type":"string"},"port":{"type":"integer"},"protocol":{"type":"string","default":"TCP"}}}}}},
"status":{"type":"object","properties":{"ready":{"type":"boolean"},"message":{"type":"string"}}}}}}}]}}`, plural, kind, strings.ToLower(kind))
}

func widget(i, size int, version string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d","resourceVersion":"%s","namespace":"default","labels":{"app":"web","tier":"front"}},
"spec":{"size":%d,"image":"registry.example.com/team/web:1.2.3","labels":{"a":"b","c":"d"},"ports":[{"name":"http","port":80},{"name":"metrics","port":9090}]}}`, i, version, size)
}

func (s *subject) target() wire.Target { return wire.Target{URL: s.files.URL, Token: s.files.Token} }

func (s *subject) do(method, path string, body []byte) ([]byte, error) {
	return s.conn.Do(wire.Request{Method: method, Path: path, Body: body, Accept: "application/json", ContentType: "application/json"}, s.buffer)
}

// all takes all measurements.
func (s *subject) all(ctx context.Context, dirs string) (all []figure, err error) {
	if s.conn, err = wire.Dial(s.target()); err != nil {
		return nil, err
	}
	defer func() { _ = s.conn.Close() }()
	for _, step := range []func(context.Context) ([]figure, error){
		func(context.Context) ([]figure, error) { return s.memory(ctx, dirs) }, s.etcd, s.served, s.requests, s.lists, s.together, s.watch,
	} {
		more, err := step(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// install creates a definition and waits until its objects are served.
func (s *subject) install(ctx context.Context, body []byte, path string) (time.Duration, error) {
	began := time.Now()
	if _, err := s.do(http.MethodPost, definitionsPath, body); err != nil {
		return 0, err
	}
	for {
		if _, err := s.do(http.MethodGet, path, nil); err == nil {
			return time.Since(began), nil
		} else if !strings.Contains(err.Error(), " 404 ") && !strings.Contains(err.Error(), " 429 ") || ctx.Err() != nil || time.Since(began) > time.Minute {
			return 0, err
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// memory measures what the definitions in dirs add.
func (s *subject) memory(ctx context.Context, dirs string) ([]figure, error) {
	if dirs == "" {
		return nil, nil
	}
	definitions, err := customresources.Load(strings.Split(dirs, ",")...)
	if err != nil {
		return nil, err
	}
	time.Sleep(5 * time.Second) // until the memory of the start is given back
	before, err := s.server.Resident()
	if err != nil {
		return nil, err
	}
	api, err := kubeconfig.Connect(s.files.Config)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	size := 0
	for _, d := range definitions {
		body, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		size += len(body)
	}
	began := time.Now()
	if err := customresources.Install(ctx, api, definitions...); err != nil {
		return nil, err
	}
	took := time.Since(began)
	time.Sleep(10 * time.Second)
	after, err := s.server.Resident()
	return []figure{
		{fmt.Sprintf("%d real definitions, %.1f MB of JSON: created until all are established, s", len(definitions), float64(size)/1e6), took.Seconds()},
		{"memory that they add, MiB", after - before},
		{"memory of the process with them, MiB", after},
	}, err
}

// etcd measures the etcd of the side alone: what a request costs at least.
func (s *subject) etcd(ctx context.Context) ([]figure, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.files.Etcd}, DialTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var writes, reads []time.Duration
	for i := range 1000 {
		key := fmt.Sprint("/bench/", i)
		began := time.Now()
		if _, err := client.Put(ctx, key, strings.Repeat("x", 1000)); err != nil {
			return nil, err
		}
		written := time.Now()
		if _, err := client.Get(ctx, key); err != nil {
			return nil, err
		}
		writes, reads = append(writes, written.Sub(began)), append(reads, time.Since(written))
	}
	return []figure{{"a commit of etcd alone, ms", milliseconds(writes)}, {"a read of etcd alone, ms", milliseconds(reads)}}, nil
}

// served measures the time from the request that creates a definition until its objects can be listed.
func (s *subject) served(ctx context.Context) ([]figure, error) {
	var took []time.Duration
	for i := range 20 {
		plural := fmt.Sprintf("things%d", i)
		d, err := s.install(ctx, definition(plural, fmt.Sprintf("Thing%d", i)), "/apis/example.com/v1/namespaces/default/"+plural)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	_, err := s.install(ctx, definition("widgets", "Widget"), widgetsPath)
	return []figure{{"a definition is created until its objects can be listed, ms", milliseconds(took)}}, err
}

// timed measures n requests of one client, and the processor time of the server.
func (s *subject) timed(what string, n int, each func(i int) error) ([]figure, error) {
	before, err := s.server.CPU()
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, n)
	for i := range n {
		began := time.Now()
		if err := each(i); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	after, err := s.server.CPU()
	return []figure{
		{what + ", ms", milliseconds(took)},
		{what + ", processor time of the server, ms", float64((after - before).Microseconds()) / float64(n) / 1000},
	}, err
}

// write creates or updates one of the first objects.
func (s *subject) write(method, path string, i, size int) error {
	body, err := s.do(method, path, widget(i, size, s.versions[i]))
	if _, rest, ok := bytes.Cut(body, []byte(`"resourceVersion":"`)); ok {
		version, _, _ := bytes.Cut(rest, []byte(`"`))
		s.versions[i] = string(version)
	}
	return err
}

func (s *subject) update(i, size int) error {
	return s.write(http.MethodPut, fmt.Sprintf("%s/w%d", widgetsPath, i), i, size)
}

func (s *subject) requests(context.Context) (all []figure, err error) {
	for _, r := range []struct {
		what string
		n    int
		each func(i int) error
	}{
		{"create an object", 1000, func(i int) error { return s.write(http.MethodPost, widgetsPath, i, 1) }},
		{"get an object", 2000, func(i int) error {
			_, err := s.do(http.MethodGet, fmt.Sprintf("%s/w%d", widgetsPath, i%1000), nil)
			return err
		}},
		{"update an object", 1000, func(i int) error { return s.update(i, 2) }},
	} {
		more, err := s.timed(r.what, r.n, r.each)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// fill creates the other objects with eight clients.
func (s *subject) fill() error {
	var clients sync.WaitGroup
	failures := make(chan error, 8)
	for c := range 8 {
		clients.Go(func() {
			conn, err := wire.Dial(s.target())
			if err != nil {
				failures <- err
				return
			}
			defer conn.Close()
			for i := 1000 + c; i < objects; i += 8 {
				if _, err := conn.Do(wire.Request{Method: http.MethodPost, Path: widgetsPath, Body: widget(i, 1, ""), Accept: "application/json", ContentType: "application/json"}, nil); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	clients.Wait()
	close(failures)
	return <-failures
}

// together measures requests that sixteen clients make at the same time, each about objects of its own.
func (s *subject) together(context.Context) (all []figure, err error) {
	const clients, each = 16, 300
	conns := make([]*wire.Conn, clients)
	for c := range conns {
		if conns[c], err = wire.Dial(s.target()); err != nil {
			return nil, err
		}
		defer conns[c].Close()
	}
	for _, r := range []struct {
		what, method, path string
		body               func(i int) []byte
	}{
		{"create an object", http.MethodPost, widgetsPath, func(i int) []byte { return widget(i, 1, "") }},
		{"get an object", http.MethodGet, widgetsPath + "/w%d", func(int) []byte { return nil }},
		{"patch an object", http.MethodPatch, widgetsPath + "/w%d", func(int) []byte { return []byte(`{"spec":{"size":2}}`) }},
	} {
		before, err := s.server.CPU()
		if err != nil {
			return nil, err
		}
		began := time.Now()
		var running errgroup.Group
		for c, conn := range conns {
			running.Go(func() error {
				for i := objects + c*each; i < objects+(c+1)*each; i++ {
					path, media := r.path, "application/json"
					if r.method != http.MethodPost {
						path = fmt.Sprintf(r.path, i)
					}
					if r.method == http.MethodPatch {
						media = "application/merge-patch+json"
					}
					if _, err := conn.Do(wire.Request{Method: r.method, Path: path, Body: r.body(i), Accept: "application/json", ContentType: media}, nil); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := running.Wait(); err != nil {
			return nil, err
		}
		took := time.Since(began)
		after, err := s.server.CPU()
		if err != nil {
			return nil, err
		}
		const n = clients * each
		all = append(all,
			figure{fmt.Sprintf("%d clients %s, ms for one", clients, r.what), float64(took.Microseconds()) / n / 1000},
			figure{fmt.Sprintf("%d clients %s, processor time of the server, ms", clients, r.what), float64((after - before).Microseconds()) / n / 1000})
	}
	return all, nil
}

func (s *subject) lists(context.Context) ([]figure, error) {
	if err := s.fill(); err != nil {
		return nil, err
	}
	s.buffer = make([]byte, 0, 32<<20)
	defer func() { s.buffer = nil }()
	return s.timed("list 10,000 objects", 7, func(int) error {
		body, err := s.do(http.MethodGet, widgetsPath, nil)
		if n := bytes.Count(body, []byte(`"kind":"Widget",`)); err == nil && n < objects {
			err = fmt.Errorf("%d objects are listed", n)
		}
		return err
	})
}

// watch measures the time from an update until each of ten watches has its event.
func (s *subject) watch(ctx context.Context) ([]figure, error) {
	const watchers, updates = 10, 500
	list, err := s.do(http.MethodGet, widgetsPath+"?limit=1", nil)
	if err != nil {
		return nil, err
	}
	var at struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(list, &at); err != nil {
		return nil, err
	}
	seen := make(chan struct{}, watchers*updates)
	for range watchers {
		conn, err := wire.Dial(s.target())
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if err := conn.Send(wire.Request{Method: http.MethodGet, Path: widgetsPath + "?watch=true&resourceVersion=" + at.Metadata.ResourceVersion, Accept: "application/json"}); err != nil {
			return nil, err
		}
		go func() {
			_, _ = conn.Receive(func(data []byte) error { // until the connection is closed
				for range bytes.Count(data, []byte(`{"type":"MODIFIED"`)) {
					seen <- struct{}{}
				}
				return nil
			})
		}()
	}
	return s.timed("update an object until ten watches have its event", updates, func(i int) error {
		if err := s.update(i, 3); err != nil {
			return err
		}
		for range watchers {
			select {
			case <-seen:
			case <-time.After(10 * time.Second):
				return fmt.Errorf("update %d: a watch has no event", i)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}
