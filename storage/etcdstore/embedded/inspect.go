package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// ErrDamaged marks errors of a data directory that a server cannot use.
var ErrDamaged = errors.New("restore a snapshot into a fresh directory")

// damaged returns an error that names the file or directory, its damage and the remedy.
func damaged(path, format string, args ...any) error {
	return fmt.Errorf("%s %w: %w", path, fmt.Errorf(format, args...), ErrDamaged)
}

// inspect returns an error if etcd cannot handle the contents of dir. With some damage etcd panics,
// with some it waits forever, and it takes a missing database for a new one. inspect returns the
// last log index that the database has applied.
func inspect(dir string) (index uint64, err error) {
	member := filepath.Join(dir, "member")
	if _, err := os.Stat(member); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	log := filepath.Join(member, "wal")
	segments, err := filepath.Glob(filepath.Join(log, "*.wal"))
	if err != nil {
		return 0, err
	}
	for _, path := range segments {
		if err := checkHead(path); err != nil {
			return 0, err
		}
	}
	database := databasePath(dir)
	info, err := os.Stat(database)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(segments) == 0:
		return 0, nil // an interrupted first start
	case errors.Is(err, fs.ErrNotExist):
		return 0, damaged(database, "is missing")
	case err != nil:
		return 0, err
	case info.Size() == 0 && len(segments) == 0:
		return 0, os.Remove(database) // an interrupted first start
	}
	if err := checkPages(database); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return 0, err
		}
		return 0, damaged(database, "is damaged: %w", err)
	}
	if index, err = appliedIndex(database); err != nil {
		return 0, fmt.Errorf("%s: %w", database, err)
	}
	// A restored database has no log index yet.
	if index > 0 && len(segments) == 0 {
		return 0, damaged(log, "has no write-ahead log, which the database needs")
	}
	return index, nil
}

// checkHead returns an error unless a segment of the log begins as etcd writes it, with a checksum
// and a description of the member. Without them etcd panics, and continues to prepare the next
// segment in a directory that may have another owner by then.
func checkHead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil {
		return err
	} else if info.Size() == 0 {
		return damaged(path, "is empty")
	}
	decoder := wal.NewDecoder(fileutil.NewFileReader(f))
	for _, kind := range []int64{wal.CrcType, wal.MetadataType} {
		var record walpb.Record
		if err := decoder.Decode(&record); err != nil {
			return damaged(path, "does not begin with a record of the log: %w", err)
		}
		if record.Type != kind {
			return damaged(path, "does not begin with the records that begin a log")
		}
		if kind == wal.CrcType {
			decoder.UpdateCRC(record.Crc)
		}
	}
	return nil
}

// appliedIndex reads the index of the last applied log entry from a database that has been checked.
func appliedIndex(path string) (index uint64, err error) {
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	err = db.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(schema.Meta.Name())
		if meta == nil {
			return nil
		}
		if value := meta.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
			index = binary.BigEndian.Uint64(value)
		}
		return nil
	})
	return index, err
}
