package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/logs"
	corev1 "k8s.io/api/core/v1"
)

// newRotator returns what keeps the logs of this node's containers small; nil if the runtime cannot
// open a log again.
func (k *Kubelet) newRotator() (*logs.Rotator, error) {
	if _, ok := k.config.Runtime.(LogReopener); !ok {
		return nil, nil
	}
	return logs.New(logs.Config{
		Runtime: k.config.Runtime.(logs.Runtime),
		Root:    k.config.LogRoot,
		Labels:  map[string]string{podconfig.LabelNode: k.config.NodeName},
		MaxSize: k.config.LogMaxSize, MaxFiles: k.config.LogMaxFiles,
		Interval: k.config.LogInterval, Workers: k.config.LogWorkers,
		Log: k.log,
	})
}

// removeFiles removes the log and the termination message of a container that was removed.
func (w *worker) removeFiles(pod *corev1.Pod, state *lifecycle.State, id string) error {
	for _, c := range state.Containers {
		if c.ID == id {
			path := filepath.Join(w.kubelet.podConfig.LogDirectory(pod), c.Name, fmt.Sprintf("%d.log", c.Attempt))
			err := os.Remove(w.kubelet.podConfig.MessageFile(pod.UID, c.Name, c.Attempt))
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return errors.Join(err, logs.Remove(path))
		}
	}
	return nil
}
