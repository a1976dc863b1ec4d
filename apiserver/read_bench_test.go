package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
)

// discard is an http.ResponseWriter that counts.
type discard struct {
	header http.Header
	code   int
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(code int)        { d.code = code }
func (d *discard) FlushError() error           { return nil }
func (d *discard) Write(b []byte) (int, error) { d.bytes += len(b); return len(b), nil }

// busyPod is a pod as large as real ones are.
func busyPod(name, node string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"web","pod-template-hash":"5d8f7c9b4"},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d8f7c9b4","uid":"4f6c1a52-7c0a-4b8b-9d7c-0b3a5f6e7d8c","controller":true,"blockOwnerDeletion":true}]},
		"spec":{"nodeName":%q,"serviceAccountName":"default","restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
		"containers":[{"name":"c","image":"registry.example/web:1.2.3","ports":[{"containerPort":80,"protocol":"TCP"}],
		"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
		"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},
		"volumeMounts":[{"name":"token","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true}],
		"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
		"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}],"defaultMode":420}}],
		"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},
		"status":{"phase":"Running","podIP":"10.1.2.3","conditions":[{"type":"Ready","status":"True"},{"type":"PodScheduled","status":"True"}]}}`, name, node)
}

// serve measures a GET through ServeHTTP.
func serve(b *testing.B, s *apiserver.Server, token, path, accept string) {
	b.ReportAllocs()
	began := spent()
	defer func() { b.ReportMetric(float64(spent()-began)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("Authorization", "Bearer "+token)
		if strings.HasSuffix(b.Name(), "gzip/pods=10000") {
			r.Header.Set("Accept-Encoding", "gzip")
		}
		w := &discard{header: http.Header{}}
		s.ServeHTTP(w, r)
		if w.code != http.StatusOK || w.bytes == 0 {
			b.Fatalf("%d, %d bytes", w.code, w.bytes)
		}
		b.SetBytes(int64(w.bytes))
	}
}

// spent is the CPU time of the process, which says more than the clock on a
// machine that does other things too.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServe reads through ServeHTTP, without a wire.
func BenchmarkServe(b *testing.B) {
	server := apiservertest.Start(b, apiservertest.WithResources(resources()...))
	a := &api{b, server.As("admin", "system:masters"), "http://memory"}
	const n = 10_000
	for i := range n {
		a.create(podPath, busyPod(fmt.Sprintf("web-5d8f7c9b4-%05d", i), fmt.Sprint("node-", i%100)))
	}
	table := "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, c := range []struct{ name, path, accept string }{
		{"list/proto", podPath, protoMedia},
		{"list/json", podPath, "application/json"},
		{"list/proto/gzip", podPath, protoMedia},
		{"list/json/gzip", podPath, "application/json"},
		{"list/table", podPath, table},
		{"list/proto/page=500", podPath + "?limit=500", protoMedia},
		{"list/proto/label", podPath + "?labelSelector=app%3Dnone", protoMedia},
		{"list/proto/node", podPath + "?fieldSelector=spec.nodeName%3Dnode-7", protoMedia},
		{"get/proto", podPath + "/web-5d8f7c9b4-00007", protoMedia},
		{"get/json", podPath + "/web-5d8f7c9b4-00007", "application/json"},
	} {
		b.Run(fmt.Sprintf("%s/pods=%d", c.name, n), func(b *testing.B) {
			serve(b, server.Server, server.Token, c.path, c.accept)
		})
	}
}

// BenchmarkFanOut changes a pod that many watch, over memory: an iteration ends
// when all have got the event.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("watchers=", n), func(b *testing.B) {
			server := apiservertest.Start(b, apiservertest.WithResources(resources()...))
			a := &api{b, server.As("admin", "system:masters"), "http://memory"}
			a.create(podPath, busyPod("p", ""))
			ctx, cancel := context.WithCancel(b.Context())
			var watchers, round sync.WaitGroup
			for range n {
				round.Add(1)
				watchers.Go(func() {
					r := httptest.NewRequestWithContext(ctx, http.MethodGet, podPath+"?watch=true", nil)
					r.Header.Set("Accept", protoMedia)
					r.Header.Set("Authorization", "Bearer "+server.Token)
					server.ServeHTTP(&rounds{discard: discard{header: http.Header{}}, round: &round}, r)
				})
			}
			round.Wait()
			b.ReportAllocs()
			began := spent()
			i := 0
			for b.Loop() {
				round.Add(n)
				i++
				a.want(a.do("PATCH", podPath+"/p", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i), mergePatch), 200, "")
				round.Wait()
			}
			b.ReportMetric(float64(spent()-began)/float64(b.N), "cpu-ns/op")
			cancel()
			watchers.Wait()
		})
	}
}

// rounds is done with a round when an event is written.
type rounds struct {
	discard
	round *sync.WaitGroup
}

func (c *rounds) Write(data []byte) (int, error) {
	c.round.Done()
	return len(data), nil
}

// BenchmarkMemory tells the heap that a cached pod takes beside what the memory
// store takes.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		server := apiservertest.Start(b, apiservertest.WithResources(resources()...))
		a := &api{b, server.As("admin", "system:masters"), "http://memory"}
		for i := range n {
			a.create(podPath, busyPod(fmt.Sprintf("web-5d8f7c9b4-%05d", i), fmt.Sprint("node-", i%100)))
		}
		before := heap()
		for _, media := range []string{protoMedia, "application/json"} {
			a.read(podPath, media)
			b.ReportMetric(float64(heap()-before)/n, strings.TrimPrefix(media, "application/")+"-B/pod")
		}
		a.client.CloseIdleConnections()
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
