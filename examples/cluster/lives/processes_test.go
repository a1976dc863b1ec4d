//go:build linux

package lives_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// process is the first process of a container.
type process struct {
	pid int
	// started is in ticks since the boot; it tells a process from a later one with its number.
	started  string
	restarts int32
}

// bundle returns the directory with what containerd gave to runc.
func (n *node) bundle(id string) string {
	return filepath.Join(filepath.Dir(n.daemon.Socket()), "io.containerd.runtime.v2.task/k8s.io", id)
}

// processOf returns the first process of a container or sandbox.
func (n *node) processOf(id string) (process, error) {
	text, err := os.ReadFile(filepath.Join(n.bundle(id), "init.pid"))
	if err != nil {
		return process{}, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return process{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The name is in parentheses and may hold anything. The state is the third field, the start the
	// 22nd (proc(5)).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return process{}, fmt.Errorf("process %d of %s has ended", pid, id)
	}
	return process{pid: pid, started: fields[19]}, nil
}

// processes returns the process of each container of a pod that runs.
func (n *node) processes(pod *corev1.Pod) (map[string]process, error) {
	all := map[string]process{}
	for _, s := range statuses(pod) {
		if s.State.Running == nil {
			continue
		}
		p, err := n.processOf(strings.TrimPrefix(s.ContainerID, "containerd://"))
		if err != nil {
			return nil, fmt.Errorf("container %s, which the pod reports to run: %w", s.Name, err)
		}
		p.restarts = s.RestartCount
		all[s.Name] = p
	}
	return all, nil
}

var podGroup = regexp.MustCompile(`/pod([0-9a-f-]{36})/`)

// podOf returns the UID of the pod of a container or sandbox.
func (n *node) podOf(id string) (uid string, ok bool) {
	text, err := os.ReadFile(filepath.Join(n.bundle(id), "config.json"))
	if err != nil {
		return "", false
	}
	var config struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return "", false
	}
	match := podGroup.FindStringSubmatch(config.Linux.CgroupsPath)
	if match == nil {
		return "", false
	}
	return match[1], true
}
