package crd_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// BenchmarkDefinition creates definitions, and measures the time until one is served and the memory of one that
// is not used.
func BenchmarkDefinition(b *testing.B) {
	a := start(b, nil)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var served time.Duration
	n := 0
	for b.Loop() {
		plural := fmt.Sprintf("things%d", n)
		n++
		began := time.Now()
		a.want(a.do("POST", definitions, define(plural, fmt.Sprint("Thing", n), widgetSchema, widgetMore)), 201, "")
		for {
			got := a.do("GET", "/apis/example.com/v1/"+plural, "")
			if got.code == 200 {
				break
			}
			if time.Since(began) > patience {
				b.Fatalf("GET of %s = %d %s after %v, want 200", plural, got.code, got.body, patience)
			}
			time.Sleep(50 * time.Microsecond) // short beside the time that is measured
		}
		served += time.Since(began)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(served.Microseconds())/float64(n), "µs-to-served")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(n)/1024, "KB/definition")
	runtime.KeepAlive(a)
}

// BenchmarkObject creates and reads objects.
func BenchmarkObject(b *testing.B) {
	a := start(b, nil)
	a.install(widgets(widgetSchema, widgetMore))
	body := func(i int) string {
		return widget(fmt.Sprint("w", i), `{"size":3,"ports":[{"name":"a","port":1},{"name":"b","port":2}],"any":{"x":{"y":1}}}`)
	}
	b.Run("create", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			a.want(a.do("POST", path, strings.Replace(body(i), `"w`, fmt.Sprintf(`"w%d-`, b.N), 1)), 201, "")
		}
	})
	a.want(a.do("POST", path, body(0)), 201, "")
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			a.want(a.do("GET", path+"/w0", ""), 200, "")
		}
	})
}
