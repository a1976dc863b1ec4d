package embedded

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// RevisionGap is the distance between the revision of a snapshot and the first revision after
// [Restore]. It covers the writes after the snapshot that were lost: as long as they were fewer, no
// revision names two different changes.
const RevisionGap = 1_000_000_000

// ErrIntegrity marks errors of a damaged snapshot.
var ErrIntegrity = errors.New("the snapshot is damaged or incomplete")

// SnapshotStatus describes a snapshot, as `etcdutl snapshot status` does.
type SnapshotStatus struct {
	// Hash is a CRC-32C of all keys and values.
	Hash uint32 `json:"hash"`
	// Revision is the revision of the last change.
	Revision int64 `json:"revision"`
	// TotalKeys counts the database's entries: every revision of every key that was not compacted,
	// and etcd's own entries.
	TotalKeys int `json:"totalKey"`
	// TotalSize is the size of the database in bytes.
	TotalSize int64 `json:"totalSize"`
	// Version is the version of the storage format.
	Version string `json:"version"`
}

// Status verifies the snapshot in file and describes it.
func Status(file string) (SnapshotStatus, error) {
	if _, err := verify(file, io.Discard); err != nil {
		return SnapshotStatus{}, fmt.Errorf("embedded: snapshot %s: %w", file, err)
	}
	if err := checkPages(file); err != nil {
		return SnapshotStatus{}, fmt.Errorf("embedded: snapshot %s: %w: %w", file, ErrIntegrity, err)
	}
	db, err := bolt.Open(file, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return SnapshotStatus{}, fmt.Errorf("embedded: snapshot %s: %w", file, err)
	}
	defer func() { _ = db.Close() }()
	var s SnapshotStatus
	err = db.View(func(tx *bolt.Tx) error { return s.read(tx) })
	if err != nil {
		return SnapshotStatus{}, fmt.Errorf("embedded: snapshot %s: %w", file, err)
	}
	return s, nil
}

func (s *SnapshotStatus) read(tx *bolt.Tx) error {
	s.TotalSize = tx.Size()
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	err := tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		hash.Write(name)
		return b.ForEach(func(key, value []byte) error {
			hash.Write(key)
			hash.Write(value)
			s.TotalKeys++
			if bytes.Equal(name, schema.Key.Name()) {
				s.Revision = mvcc.BytesToRev(key).Main
			}
			return nil
		})
	})
	s.Hash = hash.Sum32()
	meta := tx.Bucket(schema.Meta.Name())
	if err != nil || meta == nil || tx.Bucket(schema.Key.Name()) == nil {
		return errors.Join(err, fmt.Errorf("%w: it holds no etcd database", ErrIntegrity))
	}
	s.Version = string(meta.Get(schema.MetaStorageVersionName))
	return nil
}

// verify copies the database in a snapshot to w, returns its size, and checks its checksum.
func verify(file string, w io.Writer) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	// A database is a whole number of pages, each at least as large as a sector.
	size := info.Size() - sha256.Size
	if size <= 0 || size%512 != 0 {
		return 0, fmt.Errorf("%w: %d bytes are no database followed by its SHA-256 sum", ErrIntegrity, info.Size())
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w, sum), f, size); err != nil {
		return 0, err
	}
	want, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return 0, fmt.Errorf("%w: its SHA-256 sum is another", ErrIntegrity)
	}
	return size, nil
}

// Restore creates the data directory dir with the contents of the snapshot in file, for a Server to
// run on. dir must be empty or absent. It is created completely or not at all.
//
// Revisions continue [RevisionGap] after that of the snapshot, without any older history. A client
// that has read or watched the lost store, and continues from one of its revisions, therefore gets
// ErrCompacted and lists again. It cannot take one change for another.
func Restore(file, dir string) (SnapshotStatus, error) {
	status, err := Status(file)
	if err != nil {
		return SnapshotStatus{}, err
	}
	if err := restore(file, filepath.Clean(dir)); err != nil {
		return SnapshotStatus{}, fmt.Errorf("embedded: restore %s to %s: %w", file, dir, err)
	}
	return status, nil
}

func restore(file, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return errors.New("the directory is not empty")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	// Use a sibling of dir, so that a rename can replace dir.
	made, err := os.MkdirTemp(filepath.Dir(dir), ".restoring-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }()
	path := databasePath(made)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := unpack(file, path); err != nil {
		return err
	}
	renew(path)
	if err := syncAll(path, filepath.Dir(path), filepath.Dir(filepath.Dir(path)), made); err != nil {
		return err
	}
	// An empty directory is removed. One that is no longer empty is an error.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		return err
	}
	return syncAll(filepath.Dir(dir))
}

// unpack writes the database in a snapshot to path.
func unpack(file, path string) error {
	db, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = verify(file, db)
	return errors.Join(err, db.Close())
}

// renew turns the database at path into that of a new cluster: it keeps the data, and removes the
// members and the position in their log.
func renew(path string) {
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	tx := b.BatchTx()
	tx.LockOutsideApply()
	for _, key := range [][]byte{schema.MetaConsistentIndexKeyName, schema.MetaTermKeyName, schema.MetaConfStateName} {
		tx.UnsafeDelete(schema.Meta, key)
	}
	for _, bucket := range []backend.Bucket{schema.Members, schema.MembersRemoved, schema.Cluster} {
		tx.UnsafeDeleteBucket(bucket)
		tx.UnsafeCreateBucket(bucket)
	}
	// etcd finishes this compaction when it starts, and continues from its revision.
	mvcc.UnsafeSetScheduledCompact(tx, lastRevision(tx)+RevisionGap)
	tx.Unlock()
	b.ForceCommit()
	_ = b.Close()
}

// lastRevision returns the last revision in the database.
func lastRevision(tx backend.UnsafeReader) int64 {
	var last int64
	_ = tx.UnsafeForEach(schema.Key, func(key, _ []byte) error {
		last = mvcc.BytesToRev(key).Main
		return nil
	})
	for _, read := range []func(backend.UnsafeReader) (int64, bool){mvcc.UnsafeReadScheduledCompact, mvcc.UnsafeReadFinishedCompact} {
		if at, ok := read(tx); ok {
			last = max(last, at)
		}
	}
	return last
}

// syncAll syncs files and directories to disk.
func syncAll(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// databasePath returns the path of the database in a data directory.
func databasePath(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
