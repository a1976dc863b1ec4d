package containerd

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// resultsDir is where every containerd of the machine keeps the results of network plugins. The name of
// a file is that of the network, the sandbox's id and the interface, joined by hyphens.
const resultsDir = "/var/lib/cni/results"

// sandboxes returns the ids of the sandboxes that have a directory in the root.
func (d *Daemon) sandboxes() []string {
	dirs, _ := filepath.Glob(filepath.Join(d.config.Root, "io.containerd.grpc.v1.cri/sandboxes/*"))
	var ids []string
	for _, dir := range dirs {
		if containerID.MatchString(dir) {
			ids = append(ids, filepath.Base(dir))
		}
	}
	return ids
}

// results returns the files with the results of a sandbox's network plugins.
func results(id string) []string {
	files, _ := filepath.Glob(filepath.Join(resultsDir, "*-"+id+"-*"))
	return files
}

// removeTornResults removes the results that a daemon was killed in the middle of writing. The next
// daemon would read them whenever it stops the sandbox, and fail; it stops a sandbox without results.
// No daemon may run.
func (d *Daemon) removeTornResults() error {
	var failed error
	for _, id := range d.sandboxes() {
		for _, file := range results(id) {
			data, err := os.ReadFile(file)
			if err != nil || json.Valid(data) {
				continue
			}
			d.config.Log.Info("removing the result of a network plugin that was not written to its end", "path", file)
			failed = errors.Join(failed, os.Remove(file))
		}
	}
	return failed
}

// removeResults removes the results of a sandbox that does not exist.
func removeResults(id string) error {
	var failed error
	for _, file := range results(id) {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
