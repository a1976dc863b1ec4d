package client

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// frameOf returns an event with an object of size bytes as a watch sends it.
func frameOf(t *testing.T, size int) []byte {
	t.Helper()
	e := metav1.WatchEvent{Type: "ADDED", Object: kruntime.RawExtension{Raw: bytes.Repeat([]byte("x"), size)}}
	encoded, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(encoded))), encoded...)
}

// TestWatchKeepsNoLargeBuffer sends many watches a large object among small ones and then nothing.
// They must not keep as much memory as the object took.
func TestWatchKeepsNoLargeBuffer(t *testing.T) {
	const watches, large = 50, 1 << 20
	stream := bytes.Join([][]byte{frameOf(t, 100), frameOf(t, large), frameOf(t, 1000), frameOf(t, large)}, nil)
	var open []func() (event, error)
	before := liveHeap()
	for range watches {
		next := framed(bufio.NewReader(bytes.NewReader(stream)))
		for i, size := range []int{100, large, 1000, large} {
			e, err := next()
			if err != nil || string(e.kind) != "ADDED" || len(e.object) != size {
				t.Fatalf("event %d: %s of %d bytes, error %v", i, e.kind, len(e.object), err)
			}
		}
		open = append(open, next)
	}
	if kept := liveHeap() - before; kept > watches*large/10 {
		t.Errorf("%d watches keep %d bytes", watches, kept)
	}
	runtime.KeepAlive(open)
}

// liveHeap returns the size of the reachable objects in bytes.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
