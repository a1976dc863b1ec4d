package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// ErrLocked means that another etcd uses the data directory.
var ErrLocked = errors.New("data directory is in use by another etcd")

// lockName is the file in the data directory that a Server locks while it runs.
const lockName = "planekit.lock"

// lock locks dir until unlock is called. etcd would wait forever for a database that is in use, so
// lock also probes the database file, in case a stock etcd has it open. The kernel releases the
// lock when the process dies.
func lock(dir string) (unlock func(), err error) {
	file, err := fileutil.TryLockFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: lock %s: %w", dir, err)
	}
	if err := probe(filepath.Join(dir, "member", "snap", "db")); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("embedded: lock %s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}
