package nodeimages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/examples/cluster/imagefile"
	"github.com/planekit/planekit/kubelet/cri"
)

const (
	// dialWait bounds how long a runtime may take to accept a connection.
	dialWait = 5 * time.Second
	// seenWait bounds how long the CRI plugin of containerd may take to see an image that containerd has.
	seenWait = 20 * time.Second
	seenPoll = 10 * time.Millisecond
)

// errSimulated is the error of commands where images have no meaning.
var errSimulated = errors.New("the cluster simulates its containers: it runs no images, so each name of an image works and none can be loaded, listed or removed")

// runtimes are connections to the runtimes of all nodes.
type runtimes []nodeRuntime

type nodeRuntime struct {
	node
	*cri.Client
}

// connect connects to the runtimes of the cluster that runs on a data directory.
func connect(ctx context.Context, dataDir string) (runtimes, error) {
	nodes, err := findNodes(dataDir)
	if err != nil {
		return nil, err
	}
	var all runtimes
	for _, n := range nodes {
		if n.socket == "" {
			return nil, errors.Join(errSimulated, all.Close())
		}
		client, err := cri.Dial(ctx, n.socket, cri.Options{Wait: dialWait})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: %w", n.name, err), all.Close())
		}
		all = append(all, nodeRuntime{n, client})
	}
	return all, nil
}

func (all runtimes) Close() error {
	var failed error
	for _, r := range all {
		failed = errors.Join(failed, r.Client.Close())
	}
	return failed
}

// load brings the images of a file to all nodes, where they get the names that the file says, or name if there is one.
func load(ctx context.Context, out io.Writer, dataDir, path, name string) error {
	file, err := imagefile.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// All nodes with records here are on this machine.
	images, err := file.Images(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	names, err := namesOf(images, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	all, err := connect(ctx, dataDir)
	if err != nil {
		return err
	}
	defer all.Close()
	for _, r := range all {
		if err := r.load(ctx, images, names); err != nil {
			return fmt.Errorf("node %s: %w", r.name, err)
		}
	}
	for _, name := range slices.Concat(names...) {
		fmt.Fprintf(out, "%s loaded into %s\n", name, all.names())
	}
	return nil
}

// names lists the nodes.
func (all runtimes) names() string {
	var names []string
	for _, r := range all {
		names = append(names, r.name)
	}
	return strings.Join(names, ", ")
}

// namesOf returns the full names of each image. If name is not empty, it is the name of the only image.
func namesOf(images []*imagefile.Image, name string) ([][]string, error) {
	if name != "" && len(images) > 1 {
		return nil, fmt.Errorf("--name is for a file with one image, this one has %d", len(images))
	}
	all := make([][]string, len(images))
	for i, image := range images {
		names := image.Names
		if name != "" {
			names = []string{name}
			if image.Tag != "" && !tagged(name) {
				names[0] += ":" + image.Tag
			}
		}
		if len(names) == 0 {
			return nil, errors.New("the file does not say the name of its image: give one with --name")
		}
		for _, n := range names {
			full, err := fullName(n)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], full)
		}
	}
	return all, nil
}

// load stores images in the node's containerd, and waits until pods can have them.
func (r nodeRuntime) load(ctx context.Context, images []*imagefile.Image, names [][]string) error {
	version, err := r.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return err
	}
	if version.RuntimeName != "containerd" {
		return fmt.Errorf("images can be loaded into containerd, not into %s", version.RuntimeName)
	}
	s, err := openStore(r.socket)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, image := range images {
		if err := s.load(ctx, image, names[i]); err != nil {
			return err
		}
		for _, name := range names[i] {
			if err := r.awaitImage(ctx, name, image.Blobs[0].Digest.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitImage waits until the runtime has the image with that ID by a name: its CRI plugin learns of images by events.
func (r nodeRuntime) awaitImage(ctx context.Context, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, seenWait)
	defer cancel()
	for {
		got, err := r.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err == nil && got.GetImage().GetId() == id {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the runtime does not show the image %s: %w", name, cmp.Or(err, ctx.Err()))
		case <-time.After(seenPoll):
		}
	}
}

// imageRow is a name of an image, and the nodes that have it.
type imageRow struct {
	name, id string
	size     uint64
	nodes    []string
}

// images returns the images of all nodes by name.
func (all runtimes) images(ctx context.Context) ([]*imageRow, error) {
	rows := map[[2]string]*imageRow{}
	for _, r := range all {
		list, err := r.ListImages(ctx, &runtimeapi.ListImagesRequest{})
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", r.name, err)
		}
		for _, image := range list.GetImages() {
			names := image.GetRepoTags()
			if len(names) == 0 {
				names = image.GetRepoDigests()
			}
			if len(names) == 0 {
				names = []string{"<none>"}
			}
			for _, name := range names {
				key := [2]string{name, image.GetId()}
				if rows[key] == nil {
					rows[key] = &imageRow{name: name, id: image.GetId(), size: image.GetSize()}
				}
				rows[key].nodes = append(rows[key].nodes, r.name)
			}
		}
	}
	var sorted []*imageRow
	for _, row := range rows {
		sorted = append(sorted, row)
	}
	slices.SortFunc(sorted, func(a, b *imageRow) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.id, b.id))
	})
	return sorted, nil
}
