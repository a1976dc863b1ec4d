package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// ErrLocked says that another etcd is using the data directory.
var ErrLocked = errors.New("data directory is in use by another etcd")

// lockName is the file in the data directory that a Server locks while it runs.
const lockName = "planekit.lock"

// lock makes dir this server's own until unlock. etcd itself waits for a
// database that is in use, for ever; so its file is probed too, in case a stock
// etcd has it. The kernel drops the lock when the process dies.
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
