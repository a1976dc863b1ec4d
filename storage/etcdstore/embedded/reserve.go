package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

const (
	reserveName    = "reserve" // in the data directory
	defaultReserve = 128 << 20 // bytes
	leastReserve   = 32 << 20  // bytes
	// lookEvery is the interval between checks of the disk while nothing is written.
	lookEvery = 200 * time.Millisecond
	// writeCost is charged for each write in addition to twice its size, for the pages of the
	// database's tree that it copies. Most writes share these pages with other writes.
	writeCost = 4 << 10
)

// A reserve prevents etcd from running out of disk space, because etcd ends if it cannot write to
// its log or database. It allocates space in the files that will need it, so that no other program
// can use it:
//
//   - the log's next two segments, as the files that etcd is going to use for them;
//   - blocks behind the end of each segment: etcd begins a new one only after the write
//     that exceeds the size of the old one;
//   - blocks behind the end of the database, for half of the reserve's size.
//
// A write is admitted only if it fits the allocated space. If no more space can be allocated,
// writes are refused, and a file with the other half of the reserve is removed to make room for
// other writes of etcd and for a restart. Writes are admitted again once there is room for that
// file.
type reserve struct {
	dir  string
	size int64
	log  logr.Logger
	wake chan struct{} // requests a look; size 1, because one request is enough

	mu sync.Mutex
	// mu guards the fields below. refused is the reason to refuse writes; nil while they are
	// admitted.
	refused error
	// charged is the space that writes since the latest look may need. before is the charge of the
	// writes before it, which that look may have missed.
	charged, before int64
	deleted         int64         // charged for deletions while writes are refused
	looked          chan struct{} // closed after the next look

	// trimmed is the log's last segment after prepare has shortened it and until its space is
	// allocated again. It belongs to prepare, then to the goroutine that looks.
	trimmed string
	// tail is the log's last segment with blocks allocated behind its end. It belongs to the
	// goroutine that looks.
	tail string
}

func newReserve(dir string, size int64, log logr.Logger) *reserve {
	r := &reserve{dir: dir, size: size, log: log, wake: make(chan struct{}, 1), looked: make(chan struct{})}
	r.deleted = r.most() // refuse all writes before the first look
	return r
}

// most is the maximum charge between two looks, in bytes.
func (r *reserve) most() int64 { return r.size / 8 }
func (r *reserve) low() int64  { return r.size / 8 }

// overrun is the maximum size of a log segment beyond its nominal size. etcd saves all waiting
// writes before it checks the size. Those are bounded by the maximum charge, at half of its rate.
func (r *reserve) overrun() int64 { return r.most()/2 + keptTail }

// A fullError is the reason to refuse writes. It matches [rpctypes.ErrNoSpace].
type fullError struct {
	dir  string
	free int64
	want int64
	err  error
}

func (e *fullError) Error() string {
	text := fmt.Sprintf("the disk of %s is full: writes are refused until %d MiB are free (%d MiB are)", e.dir, e.want>>20, e.free>>20)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *fullError) Is(target error) bool { return target == rpctypes.ErrNoSpace }
func (e *fullError) Unwrap() error        { return e.err }

// state returns the reason to refuse writes, or nil.
func (r *reserve) state() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// admit charges a write of size bytes, or returns the reason to refuse it. Deletions are admitted
// for a while after other writes are refused, because they can free space.
func (r *reserve) admit(ctx context.Context, size int, deletes bool) error {
	cost := 2*int64(size) + writeCost
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.refused != nil && deletes && r.deleted+cost <= r.most():
			r.deleted += cost
			return nil
		case r.refused != nil:
			return r.refused
		case r.before+r.charged+cost <= r.most():
			if r.charged += cost; r.charged > r.most()/4 {
				r.ask()
			}
			return nil
		}
		looked := r.looked
		r.mu.Unlock()
		r.ask()
		select {
		case <-looked:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (r *reserve) ask() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run looks at the disk repeatedly until ctx is done.
func (r *reserve) run(ctx context.Context, db backend.Backend) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.wake:
		}
		r.look(db)
	}
}

// look allocates the space for the next writes and decides whether writes are admitted.
func (r *reserve) look(db backend.Backend) {
	r.mu.Lock()
	taken, was := r.charged, r.refused
	r.before, r.charged = r.before+taken, 0
	r.mu.Unlock()
	if taken > 0 {
		db.ForceCommit() // to learn its size
	}
	now := r.take(db.Size(), was != nil)
	if now != nil && was == nil {
		r.log.Error(now, "writes are refused")
		_ = os.Remove(r.path())
	}
	if now == nil && was != nil {
		r.log.Info("there is room on the disk again: writes are admitted", "dir", r.dir)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before = taken; now == nil {
		r.deleted = 0
	}
	r.refused = now
	close(r.looked)
	r.looked = make(chan struct{})
}

func (r *reserve) path() string { return filepath.Join(r.dir, reserveName) }

// take allocates space for the log and for a database that uses used bytes. While writes are
// refused, it also requires room for the reserve file.
func (r *reserve) take(used int64, refused bool) error {
	free, err := freeSpace(r.dir)
	want := r.low()
	info, statErr := os.Stat(r.path())
	whole := statErr == nil && info.Size() == r.size/2
	remake := r.size/2 + 2*r.low()
	if refused && !whole {
		want = remake
	}
	if err != nil || free < want {
		return &fullError{r.dir, free, remake, err}
	}
	if err := errors.Join(allocate(databasePath(r.dir), used, r.size/2, true), r.segments()); err != nil {
		return &fullError{r.dir, free, remake, err}
	}
	if whole {
		return nil
	}
	if free, err = freeSpace(r.dir); err == nil && free >= r.size/2+r.low() {
		err = allocate(r.path(), 0, r.size/2, false)
	} else if err == nil {
		err = syscall.ENOSPC
	}
	// A server that was just started may run without the reserve file.
	if err != nil && refused {
		return &fullError{r.dir, free, remake, err}
	}
	return nil
}

// segments creates the files that etcd will use for the next two segments of its log, with the
// names that etcd uses (it has the first one open), and allocates blocks behind them and behind the
// current segment.
func (r *reserve) segments() error {
	if r.trimmed != "" {
		if err := allocate(r.trimmed, 0, wal.SegmentSizeBytes, true); err != nil {
			return err
		}
		r.trimmed = ""
	}
	dir := filepath.Join(r.dir, "member", "wal")
	if last, err := lastSegment(dir); err != nil {
		return err
	} else if last != r.tail {
		if err := r.allocateBehind(last); err != nil {
			return err
		}
		r.tail = last
	}
	for _, name := range segmentNames {
		path := filepath.Join(dir, name)
		if err := allocate(path, 0, wal.SegmentSizeBytes, false); err != nil {
			return err
		}
		if err := r.allocateBehind(path); err != nil {
			return err
		}
	}
	return nil
}

// allocateBehind allocates blocks behind the end of a segment. If etcd has renamed or removed it
// meanwhile, the next look tries again.
func (r *reserve) allocateBehind(segment string) error {
	err := allocate(segment, wal.SegmentSizeBytes, r.overrun(), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lastSegment returns the path of the log's last segment.
func lastSegment(dir string) (string, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(segments) == 0 {
		return "", err
	}
	return slices.Max(segments), nil
}

var segmentNames = [...]string{"0.tmp", "1.tmp"}

// prepare makes sure, before etcd starts, that its log has a next segment. etcd allocates the first
// one and does not retry.
func (r *reserve) prepare() error {
	dir := filepath.Join(r.dir, "member", "wal")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return r.roomToBegin()
	}
	first, second := filepath.Join(dir, segmentNames[0]), filepath.Join(dir, segmentNames[1])
	for _, path := range []string{first, second} {
		if err := removeUsed(path); err != nil {
			return err
		}
	}
	if _, err := os.Stat(first); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(second, first); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := allocate(first, 0, wal.SegmentSizeBytes, false)
	if errors.Is(err, syscall.ENOSPC) {
		_ = os.Remove(r.path())
		err = allocate(first, 0, wal.SegmentSizeBytes, false)
	}
	if err != nil {
		return fmt.Errorf("no room for the log's next segment of %d MiB: %w", wal.SegmentSizeBytes>>20, err)
	}
	return r.trim(dir)
}

// trim shortens the log's last segment to its contents and a small margin if the disk is nearly
// full. At its start etcd frees the space behind the last entry and allocates it again, all or
// nothing, when another program may take it.
func (r *reserve) trim(dir string) error {
	if free, err := freeSpace(r.dir); err != nil || free > 2*wal.SegmentSizeBytes {
		return err
	}
	last, err := lastSegment(dir)
	if err != nil || last == "" {
		return err
	}
	end, err := dataEnd(last)
	if err != nil {
		return err
	}
	info, err := os.Stat(last)
	if err != nil || info.Size() <= end+keptTail {
		return err
	}
	r.trimmed = last
	return os.Truncate(last, end+keptTail)
}

// keptTail is enough for the entries that a start of etcd adds to its log, and those of some days
// without writes. A smaller tail means less space to lose to another program.
const keptTail = 128 << 10

// dataEnd returns the offset after the last nonzero byte of a file.
func dataEnd(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	chunk := make([]byte, 1<<20)
	for end := info.Size(); end > 0; {
		n := min(end, int64(len(chunk)))
		if _, err := f.ReadAt(chunk[:n], end-n); err != nil {
			return 0, err
		}
		if data := bytes.TrimRight(chunk[:n], "\x00"); len(data) > 0 {
			return end - n + int64(len(data)), nil
		}
		end -= n
	}
	return 0, nil
}

// roomToBegin returns an error if the disk has no room for a new etcd.
func (r *reserve) roomToBegin() error {
	want := 3*(wal.SegmentSizeBytes+r.overrun()) + r.size
	free, err := freeSpace(r.dir)
	if err == nil && free < want {
		err = fmt.Errorf("%w: %d MiB are free, and a new etcd takes %d MiB", syscall.ENOSPC, free>>20, want>>20)
	}
	return err
}

// removeUsed removes a file that etcd has begun to use as a segment, because etcd would keep its
// contents.
func removeUsed(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	head := make([]byte, 4<<10)
	n, _ := f.Read(head)
	_ = f.Close()
	for _, b := range head[:n] {
		if b != 0 {
			return os.Remove(path)
		}
	}
	return nil
}
