package embedded

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestWorthShrinking(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		size, inUse int64
		want        bool
	}{
		{17 * mib, 0, false}, // what a write makes of a small one
		{24 * mib, 6 * mib, true},
		{24 * mib, 7 * mib, false}, // much of it is in use
		{8192 * mib, 64 * mib, true},
		{8192 * mib, 65 * mib, false}, // calls would wait for long
	} {
		if got := worthShrinking(test.size, test.inUse); got != test.want {
			t.Errorf("%d bytes, %d in use: %v", test.size, test.inUse, got)
		}
	}
}

// TestShrink writes 40 MiB, deletes them, and waits until the database is small again, while others
// read and write.
func TestShrink(t *testing.T) {
	server, err := New(Config{Dir: t.TempDir(), Compaction: 200 * time.Millisecond, InsecureNoSync: true, shrinkEvery: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-server.Ready():
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	client := server.Client()
	for i := range 40 {
		if _, err := client.Put(ctx, fmt.Sprint("/big/", i), string(make([]byte, 1<<20))); err != nil {
			t.Fatal(err)
		}
	}
	grown := databaseSize(t, client)
	if _, err := client.Delete(ctx, "/big/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		// Compaction by age needs revisions to go by, and what is written must be there.
		if _, err := client.Put(ctx, "/small", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		r, err := client.Get(ctx, "/small")
		if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != fmt.Sprint(i) {
			t.Fatalf("read %v, %v; want %d", r, err, i)
		}
		if databaseSize(t, client) < grown/2 {
			return
		}
		if i == 6000 {
			t.Fatalf("the database has %d bytes, and had %d when it was largest", databaseSize(t, client), grown)
		}
		time.Sleep(10 * time.Millisecond) // etcd compacts by its own clock
	}
}

func databaseSize(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	status, err := client.Status(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return status.DbSize
}
