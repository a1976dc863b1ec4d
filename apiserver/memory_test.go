package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/storage/memstore"
)

// forgotten is when everything is forgotten that is kept for what clients may ask soon: changes
// after five minutes and a quarter, what is shared and compressed after ten.
const forgotten = 11 * time.Minute

// mostForPod is the figure of docs/benchmarks/apiserver.md for each of 50,000 pods, in bytes.
const mostForPod = 8900

// liveHeap returns the size of the heap after a collection.
func liveHeap() int64 {
	for range 3 { // what a pool held is free after the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryComesBack fills a server, follows and lists what is in it, and deletes it. What remains
// costs no more than it should, and what is gone nothing: live heap comes back to 1.5 times what it
// was before.
func TestMemoryComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The store forgets soon what is deleted, so that it is the server that is measured.
		server, a := inMemory(t, func(c *apiserver.Config) { c.Store = memstore.NewHistory(100) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		<-server.Ready()
		// What is made once, such as codecs, is made by few objects too.
		fillWith(a, 10)
		deleteAll(a)
		time.Sleep(forgotten)
		synctest.Wait()
		idle := liveHeap()

		const pods = 4000
		fillWith(a, pods)
		time.Sleep(forgotten)
		synctest.Wait()
		full := liveHeap()
		if each := (full - idle) / pods; each > mostForPod {
			t.Errorf("a pod takes %d bytes, at most %d are due", each, mostForPod)
		}
		followPods(a)
		readAll(a)
		deleteAll(a)
		time.Sleep(forgotten)
		synctest.Wait()
		after := liveHeap()
		t.Logf("live heap: %d idle, %d with %d pods, %d without", idle, full, pods, after)
		if after > idle*3/2 {
			t.Errorf("live heap: %d before, %d with the objects, %d after they have gone", idle, full, after)
		}
	})
}

// fillWith creates so many pods, as many ConfigMaps that have nothing in common, and changes some.
func fillWith(a *api, n int) {
	for i := range n {
		name := fmt.Sprint("object-", i)
		a.create(podPath, pod(name, fmt.Sprintf(`,"labels":{"app":"app-%d"},"annotations":{"note":%q}`, i%50, strings.Repeat("n", 500))))
		if i%10 == 0 {
			a.want(a.do("PATCH", podPath+"/"+name, `{"metadata":{"labels":{"again":"yes"}}}`, mergePatch), http.StatusOK, "")
			a.create(configPath, configMap(name, fmt.Sprintf(`,"data":{"key-%d":%q}`, i, strings.Repeat("d", 2000))))
		}
	}
}

// readAll lists in the forms that are kept.
func readAll(a *api) {
	for _, path := range []string{podPath, configPath} {
		for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
			for _, encoding := range []string{"gzip", "identity"} {
				a.want(a.do("GET", path, "", "Accept: "+accept, "Accept-Encoding: "+encoding), http.StatusOK, "")
			}
		}
	}
}

// followPods has watches of several forms see changes, and end.
func followPods(a *api) {
	var group sync.WaitGroup
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf;stream=watch"} {
		group.Go(func() {
			a.do("GET", podPath+"?watch=true&timeoutSeconds=60", "", "Accept: "+accept)
		})
	}
	time.Sleep(time.Second)
	for i := range 500 {
		a.want(a.do("PATCH", fmt.Sprintf("%s/object-%d", podPath, i), `{"metadata":{"labels":{"seen":"yes"}}}`, mergePatch), http.StatusOK, "")
	}
	group.Wait()
}

// deleteAll deletes everything.
func deleteAll(a *api) {
	for _, path := range []string{podPath, configPath} {
		a.want(a.do("DELETE", path, `{"gracePeriodSeconds":0}`), http.StatusOK, "")
		if got := a.do("GET", path, ""); !strings.Contains(got.body, `"items":[]`) {
			a.t.Fatalf("left: %.200s", got.body)
		}
	}
}
