package nodeimages

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// remove removes an image from all nodes that have it, unless a container on one of them uses it. An image with
// another name loses only this one.
func remove(ctx context.Context, out io.Writer, dataDir, name string) error {
	full := name
	if !strings.HasPrefix(name, "sha256:") {
		var err error
		if full, err = fullName(name); err != nil {
			return err
		}
	}
	all, err := connect(ctx, dataDir)
	if err != nil {
		return err
	}
	defer all.Close()
	images := map[string]*runtimeapi.Image{} // by node
	var holders runtimes
	for _, r := range all {
		got, err := r.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: full}})
		if err != nil {
			return fmt.Errorf("node %s: %w", r.name, err)
		}
		if got.GetImage() == nil {
			continue
		}
		images[r.name], holders = got.GetImage(), append(holders, r)
		if err := r.checkUnused(ctx, full, got.GetImage()); err != nil {
			return err
		}
	}
	if len(holders) == 0 {
		return fmt.Errorf("no node has the image %s", full)
	}
	for _, r := range holders {
		if err := r.remove(ctx, full, images[r.name]); err != nil {
			return fmt.Errorf("node %s: %w", r.name, err)
		}
	}
	fmt.Fprintf(out, "%s removed from %s\n", full, holders.names())
	return nil
}

// otherName reports whether an image has a tag beside name.
func otherName(image *runtimeapi.Image, name string) bool {
	return slices.Contains(image.GetRepoTags(), name) && len(image.GetRepoTags()) > 1
}

// checkUnused returns an error if a container uses an image, which has no other name.
func (r nodeRuntime) checkUnused(ctx context.Context, name string, image *runtimeapi.Image) error {
	if otherName(image, name) {
		return nil
	}
	list, err := r.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("node %s: %w", r.name, err)
	}
	for _, c := range list.GetContainers() {
		if c.GetImageRef() != image.GetId() && c.GetImage().GetImage() != image.GetId() {
			continue
		}
		labels := c.GetLabels()
		return fmt.Errorf("the image %s is in use: by the container %s of the pod %s/%s on %s", name,
			labels["io.kubernetes.container.name"], labels["io.kubernetes.pod.namespace"], labels["io.kubernetes.pod.name"], r.name)
	}
	return nil
}

// remove removes an image from the node, or only name if it has others.
func (r nodeRuntime) remove(ctx context.Context, name string, image *runtimeapi.Image) error {
	if !otherName(image, name) {
		_, err := r.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		return err
	}
	s, err := openStore(r.socket) // of CRI's own calls, RemoveImage removes all names
	if err != nil {
		return err
	}
	defer s.Close()
	return s.forget(ctx, name)
}
