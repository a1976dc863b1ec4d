package nodes

import (
	"cmp"
	"crypto/tls"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
)

// File is a KubeletConfiguration that describes nodes. Its methods are for the fields of the same name in [Config], and
// safe for concurrent use. A nil File changes nothing.
type File struct {
	file    *kubeletconfig.File
	program kubeletconfig.Program
}

// ReadFile reads a KubeletConfiguration. Relative paths in it start at its directory.
func ReadFile(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := kubeletconfig.Decode(data)
	if err != nil {
		return nil, err
	}
	// What the file says of the kubelet is checked now, so that Kubelet need not fail.
	if err := file.Apply(&kubelet.Config{}); err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return &File{file: file, program: file.Program(folder)}, nil
}

// Has reports whether a field is in the file.
func (f *File) Has(field string) bool { return f != nil && f.file.Has(field) }

// HasStaticPods reports whether the file names a source of static pods.
func (f *File) HasStaticPods() bool {
	return f != nil && (f.program.StaticPodPath != "" || f.program.StaticPodURL != "")
}

// Warnings returns what in the file has no effect on a node.
func (f *File) Warnings() []string {
	if f == nil {
		return nil
	}
	return f.file.Warnings(kubeletconfig.StaticPods, kubeletconfig.TLS, kubeletconfig.Debugging)
}

// Kubelet changes the configuration of the kubelet.
func (f *File) Kubelet(k *kubelet.Config) {
	if f == nil {
		return
	}
	if err := f.file.Apply(k); err != nil {
		// The file was valid with other settings: those of nodes.
		k.Log.Error(err, "kubelet configuration")
	}
}

// StaticPods changes where the static pods of a node come from. The Path that is set already stays.
func (f *File) StaticPods(c *staticpods.Config) {
	if f == nil {
		return
	}
	c.Path = cmp.Or(c.Path, f.program.StaticPodPath)
	c.URL, c.Header = f.program.StaticPodURL, f.program.StaticPodHeader
	c.Period, c.URLPeriod = f.program.FileCheck, f.program.URLCheck
}

// Server changes the configuration of the kubelet's server.
func (f *File) Server(c *server.Config) {
	if f != nil {
		f.TLS(c.TLS)
		c.NoDebugging = !f.program.DebuggingHandlers
	}
}

// TLS changes the versions and cipher suites of the kubelet's server.
func (f *File) TLS(config *tls.Config) {
	if f != nil {
		f.program.ApplyTLS(config)
	}
}
