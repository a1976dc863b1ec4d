package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// BenchmarkList lists pods whole, over the in-memory transport.
func BenchmarkList(b *testing.B) {
	for _, media := range []string{"application/json", protoMedia} {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s/pods=%d", media, n), func(b *testing.B) {
				a := start(b)
				for i := range n {
					a.create(podPath, pod(fmt.Sprint("p", i), ""))
				}
				b.ReportAllocs()
				for b.Loop() {
					a.read(podPath, media)
				}
			})
		}
	}
}

// BenchmarkGet reads one pod.
func BenchmarkGet(b *testing.B) {
	a := start(b)
	a.create(podPath, pod("p", ""))
	b.ReportAllocs()
	for b.Loop() {
		a.read(podPath+"/p", protoMedia)
	}
}

// BenchmarkCreate makes config maps, one after another.
func BenchmarkCreate(b *testing.B) {
	a := start(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.create(configPath, configMap(fmt.Sprint("c", i), `,"data":{"k":"v"}`))
		i++
	}
}

func (a *api) read(path, media string) {
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.base+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Accept", media)
	response, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK || n == 0 {
		a.t.Fatalf("%d, %d bytes, %v", response.StatusCode, n, err)
	}
}
