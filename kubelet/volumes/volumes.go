// Package volumes sets up the volumes of pods on a node. A type of volume is a [Plugin]; [Builtin]
// returns those of Kubernetes that the kubelet has. A type of one's own is a value with three
// methods, and a line in the kubelet's configuration:
//
//	kubelet.Config{Volumes: []volumes.Plugin{vault{client}}, ...}
//
// The volume of a claim is found through the claim and the persistent volume that it is bound to; see
// [Set.With] and [PersistentPlugin].
//
// The kubelet's own workers call a [Set], which finds the plugin of each volume. It calls SetUp
// before it starts containers, and every minute while the pod runs, so that contents follow their
// source. A failed SetUp is retried with a backoff.
//
// Volumes are torn down by what is on the disk, without the Pod: a kubelet that was restarted may
// no longer find the Pod in the API. The directory of a volume,
// PODS/UID/volumes/PLUGIN/VOLUME, names the plugin; see [TearDowner]. Then everything that is still
// mounted below the pod's directory is unmounted, before the directory is removed.
//
// Without Linux, or without root, volumes in memory are on disk.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Plugin sets up one type of volume. Its methods are called concurrently for different pods, and
// by one goroutine at a time for each pod.
type Plugin interface {
	// Name is the name of the plugin, such as example.com/vault. It must not change: the directories
	// of volumes contain it.
	Name() string
	// Supports reports whether the plugin sets up a volume. The first plugin that supports it does.
	Supports(*corev1.Volume) bool
	// SetUp creates the volume, or brings an existing one up to date. It returns the path on the host
	// that containers mount. The volume may exist already, complete or not, after a failure or a
	// restart of the kubelet. SetUp must not change the pod, and must return soon when ctx is done.
	SetUp(ctx context.Context, v *Volume) (path string, err error)
}

// A TearDowner is a [Plugin] with more to undo than a directory and the mounts below it.
type TearDowner interface {
	Plugin
	// TearDown undoes SetUp for the volume with a directory. It is called at least once for each
	// volume whose SetUp was called, after the containers of the pod have ended, and also if SetUp
	// failed; again if it returns an error; and perhaps for a volume that was torn down before. The
	// kubelet creates the directory before it calls SetUp and removes it after TearDown. What
	// TearDown needs to know must be there.
	TearDown(ctx context.Context, directory string) error
}

// Volume is a volume of a pod on this node.
type Volume struct {
	// Pod, Spec and Persistent are shared with others and must not be changed.
	Pod  *corev1.Pod
	Spec *corev1.Volume
	// Persistent is the persistent volume that the pod's claim is bound to; nil if Spec has no claim
	// or the plugin supports Spec itself. See [PersistentPlugin].
	Persistent *corev1.PersistentVolume
	// ReadOnly says that the claim is used for reading only. Containers then mount the volume read-only.
	ReadOnly bool
	// Directory is for the plugin alone. It is removed, with all that is in it, when the pod is gone.
	// It exists only if the plugin has created it or is a [TearDowner].
	Directory string

	// written is the size of the files in the volumes of the pod that this package writes, in bytes.
	written *int
}

// FSGroup returns the group of the volumes of the pod, or nil.
func (v *Volume) FSGroup() *int64 {
	if v.Pod.Spec.SecurityContext == nil {
		return nil
	}
	return v.Pod.Spec.SecurityContext.FSGroup
}

// user returns the user of all containers of the pod; nil if they have none or several, so that a file
// that they share cannot belong to it.
func (v *Volume) user() (user *int64) {
	var contexts []*corev1.SecurityContext
	for i := range v.Pod.Spec.InitContainers {
		contexts = append(contexts, v.Pod.Spec.InitContainers[i].SecurityContext)
	}
	for i := range v.Pod.Spec.Containers {
		contexts = append(contexts, v.Pod.Spec.Containers[i].SecurityContext)
	}
	for i := range v.Pod.Spec.EphemeralContainers {
		contexts = append(contexts, v.Pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	for _, c := range contexts {
		var own *int64
		if s := v.Pod.Spec.SecurityContext; s != nil {
			own = s.RunAsUser
		}
		if c != nil && c.RunAsUser != nil {
			own = c.RunAsUser
		}
		if own == nil || user != nil && *user != *own {
			return nil
		}
		user = own
	}
	return user
}

// private returns a file that only the user and the group of the pod may read. If it has neither, the
// file gets a mode.
func (v *Volume) private(data []byte, mode fs.FileMode) File {
	user := v.user()
	if user != nil || v.FSGroup() != nil {
		mode = 0o600 // and what the group gets
	}
	return File{Data: data, Mode: mode, Owner: user}
}

// Error names the volume that could not be set up.
type Error struct {
	Volume string
	Err    error
}

// Error returns Kubernetes' message for such events.
func (e *Error) Error() string {
	step, err := "MountVolume.SetUp failed", e.Err
	switch e := e.Err.(type) {
	case *ClaimError:
		return e.Error()
	case *stepError:
		step, err = e.step, e.err
	}
	return fmt.Sprintf("%s for volume %q : %v", step, e.Volume, err)
}

func (e *Error) Unwrap() error { return e.Err }

// stepError is a failure before a plugin's own work.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// errUnsupported means that no plugin supports a volume.
var errUnsupported = errors.New("this kind of volume is not supported by this kubelet")

// Set is a list of plugins, with access to the claims of pods if it was made by [Set.With].
type Set struct {
	plugins []Plugin
	claims  *Claims
}

// NewSet returns a set of plugins, which are asked in this order. It fails if two have the same
// name, or one has a name that is not one of a directory.
func NewSet(plugins ...Plugin) (*Set, error) {
	known := map[string]bool{}
	for _, p := range plugins {
		name := escape(p.Name())
		if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
			return nil, fmt.Errorf("volumes: %q is not a name", p.Name())
		}
		if known[name] {
			return nil, fmt.Errorf("volumes: two plugins are called %s", p.Name())
		}
		known[name] = true
	}
	return &Set{plugins: plugins}, nil
}

// escape returns the name of a plugin as that of a directory.
func escape(plugin string) string { return strings.ReplaceAll(plugin, "/", "~") }

// SetUp sets up all volumes of a pod. It returns the path on the host of each volume by name. If a
// volume cannot be set up, the error is an [*Error]; it contains a [*ClaimError] if the reason is the
// claim of the volume.
func (s *Set) SetUp(ctx context.Context, pod *corev1.Pod, podDirectory string) (map[string]string, error) {
	claimed, err := s.resolve(ctx, pod)
	if e, ok := errors.AsType[*ClaimError](err); ok {
		return nil, &Error{Volume: e.Volumes[0], Err: e}
	}
	if err := checkMounts(pod); err != nil && len(pod.Spec.Volumes) > 0 {
		return nil, &Error{Volume: pod.Spec.Volumes[0].Name, Err: err}
	}
	paths, written := map[string]string{}, 0
	for i := range pod.Spec.Volumes {
		v := &Volume{Pod: pod, Spec: &pod.Spec.Volumes[i], written: &written}
		name := v.Spec.Name
		var path string
		var err error
		if c, ok := claimed[name]; ok {
			v.Persistent, v.ReadOnly = c.volume, c.readOnly
			name = c.volume.Name
			path, err = s.setUpPersistent(ctx, v, podDirectory)
		} else if p := s.pluginFor(v.Spec); p != nil {
			path, err = setUp(ctx, p, v, podDirectory, name)
		} else {
			err = errUnsupported
		}
		if err != nil {
			return nil, &Error{Volume: name, Err: err}
		}
		paths[v.Spec.Name] = path
	}
	return paths, nil
}

// pluginFor returns the plugin that supports a volume itself, or nil.
func (s *Set) pluginFor(v *corev1.Volume) Plugin {
	for _, p := range s.plugins {
		if p.Supports(v) {
			return p
		}
	}
	return nil
}

// setUp sets up a volume in a directory with a name.
func setUp(ctx context.Context, p Plugin, v *Volume, podDirectory, name string) (string, error) {
	v.Directory = filepath.Join(podDirectory, "volumes", escape(p.Name()), name)
	if _, ok := p.(TearDowner); ok {
		if err := os.MkdirAll(v.Directory, 0o755); err != nil {
			return "", err
		}
	}
	return p.SetUp(ctx, v)
}

// TearDown undoes SetUp for all volumes of the pod with a directory, which it leaves in place.
// Nothing is mounted below the directory afterwards, or it returns an error.
func (s *Set) TearDown(ctx context.Context, podDirectory string) error {
	// Parts of volumes are mounted elsewhere, which keeps a volume from being unmounted.
	errs := []error{unmountBelow(filepath.Join(podDirectory, "volume-subpaths"))}
	for _, p := range s.plugins {
		t, ok := p.(TearDowner)
		if !ok {
			continue
		}
		directory := filepath.Join(podDirectory, "volumes", escape(p.Name()))
		entries, err := os.ReadDir(directory)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if err := t.TearDown(ctx, filepath.Join(directory, e.Name())); err != nil {
				errs = append(errs, fmt.Errorf("tear down volume %s of %s: %w", e.Name(), p.Name(), err))
			}
		}
	}
	// The kernel's list is long on a machine with many pods, so it is read again only if there was
	// something to unmount.
	left, err := mountsBelow(podDirectory)
	if err == nil && len(left) > 0 {
		errs = append(errs, unmountAll(left))
		left, err = mountsBelow(podDirectory)
	}
	// The contents of what is still mounted would be removed with the directory.
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(left, ", "))
	}
	return errors.Join(append(errs, err)...)
}

// Sources holds the functions with which the built-in types read what they project. For an optional
// object that is missing they return nil without an error.
type Sources struct {
	ConfigMap func(ctx context.Context, namespace, name string, optional *bool) (*corev1.ConfigMap, error)
	Secret    func(ctx context.Context, namespace, name string, optional *bool) (*corev1.Secret, error)
	// Token returns a token for a volume of a pod.
	Token func(ctx context.Context, pod *corev1.Pod, volume string, p *corev1.ServiceAccountTokenProjection) (string, error)
	// TrustBundles has the anchors of cluster trust bundles. Nil means that volumes with one are not set
	// up.
	TrustBundles TrustBundles
	// Field and ResourceField return values of the downward API.
	Field         func(pod *corev1.Pod, path string) (string, error)
	ResourceField func(pod *corev1.Pod, r *corev1.ResourceFieldSelector) (string, error)
	// MemoryLimit returns how much memory a pod can use, in bytes, which bounds volumes in memory. Zero
	// means no limit, and nil that there is none for any pod.
	MemoryLimit func(pod *corev1.Pod) int64
}

// TrustBundles returns trust anchors as PEM. If no bundle matches, an optional one is empty and another
// an error.
type TrustBundles interface {
	ByName(name string, optional bool) ([]byte, error)
	BySigner(signer string, selector *metav1.LabelSelector, optional bool) ([]byte, error)
}

// Builtin returns the types of volumes that every kubelet of this module supports.
func Builtin(s Sources) []Plugin {
	return []Plugin{
		emptyDir{s.MemoryLimit}, hostPath{}, image{}, local{},
		configMapVolume(s), secretVolume(s), downwardVolume(s), projectedVolume(s),
	}
}
