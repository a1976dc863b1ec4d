package storagetest

import (
	"errors"

	"github.com/planekit/planekit/storage"
)

func checkGetAt(e *env) {
	start := e.list("", storage.ListOptions{}).Revision
	a1 := e.create("/a", "one")
	b := e.create("/b", "other")
	a2 := e.update(a1, "two")
	gone := e.remove(a2)
	a3 := e.create("/a", "three")
	e.absent("/a", start)
	e.stands(a1, a1.Revision)
	e.stands(a1, b.Revision)
	e.stands(a2, a2.Revision)
	e.absent("/a", gone.Revision)
	e.stands(a3, a3.Revision)
	e.stands(a3, 0)
	e.absent("/b", a1.Revision)
	e.stands(b, a3.Revision)
	if _, err := e.store.Get(e.ctx, "/a", a3.Revision+1000); !errors.Is(err, storage.ErrFuture) {
		e.Errorf("get in the future: error %v, want %v", err, storage.ErrFuture)
	}
}

func checkList(e *env) {
	e.lists("", storage.ListOptions{}, nil, 0)
	// In order, and created in another order. Keys are bytes: 0xff and zero are valid.
	keys := []storage.Key{"/a", "/a\x00", "/a/", "/a/1", "/a/10", "/a/2", "/a/\xff", "/a/\xff\xff", "/a0", "/b", "\xff", "\xff\xff1"}
	records := make([]storage.Record, len(keys))
	for i := range keys {
		at := (i*5 + 3) % len(keys) // 5 and the number of keys are coprime
		records[at] = e.create(keys[at], "value of "+string(keys[at]))
	}
	all := storage.ListOptions{}
	page := e.lists("", all, records, 0)
	for _, r := range records {
		if r.Revision > page.Revision {
			e.Errorf("a listing as of revision %d holds %s", page.Revision, show(r))
		}
	}
	e.lists("/a", all, records[:9], 0)
	e.lists("/a/", all, records[2:8], 0)
	e.lists("/a/1", all, records[3:5], 0)
	e.lists("/a/\xff", all, records[6:8], 0)
	e.lists("\xff", all, records[10:], 0)
	e.lists("/c", all, nil, 0)
	e.lists("a", all, nil, 0)
	e.remove(records[3])
	e.lists("/a/", all, append([]storage.Record{records[2]}, records[4:8]...), 0)
}

func checkListPages(e *env) {
	var records []storage.Record
	for _, key := range []storage.Key{"/a", "/p/1", "/p/2", "/p/3", "/p/4", "/p/5", "/q"} {
		records = append(records, e.create(key, string(key)))
	}
	under := records[1:6]
	first := e.lists("/p/", storage.ListOptions{Limit: 2}, under[:2], 3)
	// Changes between two pages must not appear in them.
	e.remove(under[0])
	e.remove(under[2])
	e.update(under[3], "changed")
	e.create("/p/31", "late")
	next := storage.ListOptions{At: first.Revision, Limit: 2, After: "/p/2"}
	e.lists("/p/", next, under[2:4], 1)
	next.After = "/p/4"
	e.lists("/p/", next, under[4:], 0)
	next.After = "/p/5"
	e.lists("/p/", next, nil, 0)

	then := storage.ListOptions{At: first.Revision}
	with := func(limit int, after storage.Key) storage.ListOptions {
		return storage.ListOptions{At: then.At, Limit: limit, After: after}
	}
	e.lists("/p/", with(5, ""), under, 0)
	e.lists("/p/", with(100, ""), under, 0)
	e.lists("/p/", with(0, "/p/2"), under[2:], 0)
	e.lists("/p/", with(1, "/p/2 which is none"), under[2:3], 2)
	e.lists("/p/", with(1, "/a"), under[:1], 4)
	e.lists("/p/", with(1, "/q"), nil, 0)
	e.lists("", with(3, "/p/3"), records[4:7], 0)
}

func checkListAt(e *env) {
	start := e.list("", storage.ListOptions{}).Revision
	a := e.create("/a", "one")
	b := e.create("/b", "one")
	a2 := e.update(a, "two")
	gone := e.remove(b)
	c := e.create("/c", "one")
	at := func(r storage.Revision) storage.ListOptions { return storage.ListOptions{At: r} }
	e.lists("/", at(start), nil, 0)
	e.lists("/", at(a.Revision), []storage.Record{a}, 0)
	e.lists("/", at(b.Revision), []storage.Record{a, b}, 0)
	e.lists("/", at(a2.Revision), []storage.Record{a2, b}, 0)
	e.lists("/", at(gone.Revision), []storage.Record{a2}, 0)
	e.lists("/", at(c.Revision), []storage.Record{a2, c}, 0)
	if page := e.lists("/", at(0), []storage.Record{a2, c}, 0); page.Revision < c.Revision {
		e.Errorf("a listing as of now is as of %d, before %d", page.Revision, c.Revision)
	}
	if _, err := e.store.List(e.ctx, "/", at(c.Revision+1000)); !errors.Is(err, storage.ErrFuture) {
		e.Errorf("list in the future: error %v, want %v", err, storage.ErrFuture)
	}
}
