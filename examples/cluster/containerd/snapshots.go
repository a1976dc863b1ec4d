package containerd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// snapshotter is the directory, in the root, of the plugin that keeps the layers of images and
// containers.
const snapshotter = "io.containerd.snapshotter.v1.overlayfs"

// removeOrphanSnapshots removes the directories of snapshots that containerd's database does not
// record. A daemon that is killed between making the directory of a snapshot and recording it gives
// the next snapshot the same number, and fails for as long as the directory exists: it pulls no
// image and makes no sandbox. No daemon may run.
func (d *Daemon) removeOrphanSnapshots() error {
	dir := filepath.Join(d.config.Root, snapshotter)
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if errors.Is(err, os.ErrNotExist) || len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	recorded, err := recordedSnapshots(filepath.Join(dir, "metadata.db"))
	if err != nil {
		return fmt.Errorf("containerd's snapshots: %w", err)
	}
	var failed error
	for _, entry := range entries {
		if recorded[entry.Name()] {
			continue
		}
		path := filepath.Join(dir, "snapshots", entry.Name())
		d.config.Log.Info("removing a snapshot that containerd does not record", "path", path)
		failed = errors.Join(failed, unmountUnder(path), os.RemoveAll(path))
	}
	return failed
}

// recordedSnapshots returns the names of the directories of all snapshots in a database of
// containerd's snapshots: their numbers. The layout is that of containerd's package
// snapshots/storage.
func recordedSnapshots(path string) (map[string]bool, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	recorded := map[string]bool{}
	err = db.View(func(tx *bbolt.Tx) error {
		version := tx.Bucket([]byte("v1"))
		if version == nil {
			return nil
		}
		snapshots := version.Bucket([]byte("snapshots"))
		if snapshots == nil {
			return nil
		}
		return snapshots.ForEachBucket(func(key []byte) error {
			id, n := binary.Uvarint(snapshots.Bucket(key).Get([]byte("id")))
			if n <= 0 {
				return fmt.Errorf("%s: snapshot %q has no number", path, key)
			}
			recorded[fmt.Sprint(id)] = true
			return nil
		})
	})
	return recorded, err
}
