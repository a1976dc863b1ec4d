package memruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Errors for Config.Pull to return, with containerd's codes.
var (
	// ErrMissing means that the registry does not have the image.
	ErrMissing = status.Error(codes.NotFound, "failed to pull and unpack image: not found")
	// ErrDenied means that the credentials do not grant access to the image.
	ErrDenied = status.Error(codes.Unknown, "failed to pull and unpack image: unexpected status: 401 Unauthorized")
)

// imageSize is the reported size of every image, in bytes.
const imageSize = 1 << 20

// newImage returns an image with digests derived from its reference.
func newImage(r reference) *runtimeapi.Image {
	id := sha256.Sum256([]byte("config of " + r.String()))
	digest := r.digest
	if digest == "" {
		sum := sha256.Sum256([]byte("manifest of " + r.String()))
		digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	image := &runtimeapi.Image{
		Id:          "sha256:" + hex.EncodeToString(id[:]),
		RepoDigests: []string{r.name + "@" + digest},
		Size:        imageSize,
		Uid:         &runtimeapi.Int64Value{Value: 0},
	}
	if r.tag != "" {
		image.RepoTags = []string{r.name + ":" + r.tag}
	}
	return image
}

// image returns a pulled image by any of its names. The caller holds r.mu.
func (r *Runtime) image(name string) *runtimeapi.Image {
	if image := r.images[name]; image != nil {
		return image
	}
	ref, err := parseReference(name)
	for _, image := range r.images {
		if slices.Contains(image.RepoDigests, name) || err == nil &&
			(slices.Contains(image.RepoTags, ref.String()) || ref.digest != "" && slices.Contains(image.RepoDigests, ref.name+"@"+ref.digest)) {
			return image
		}
	}
	return nil
}

// PullImage adds an image.
func (r *Runtime) PullImage(ctx context.Context, in *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref, err := parseReference(in.GetImage().GetImage())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if r.config.Pull != nil {
		if err := r.config.Pull(ctx, ref.String(), in.GetAuth()); err != nil {
			return nil, err
		}
	}
	image := newImage(ref)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[image.Id] = image
	return &runtimeapi.PullImageResponse{ImageRef: image.Id}, nil
}

// ImageStatus returns the status of an image; nil if it was not pulled.
func (r *Runtime) ImageStatus(_ context.Context, in *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: r.image(in.GetImage().GetImage())}, nil
}

// ListImages lists the pulled images by id.
func (r *Runtime) ListImages(_ context.Context, in *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := in.GetFilter().GetImage().GetImage(); name != "" {
		out := &runtimeapi.ListImagesResponse{}
		if image := r.image(name); image != nil {
			out.Images = append(out.Images, image)
		}
		return out, nil
	}
	images := slices.SortedFunc(maps.Values(r.images), func(a, b *runtimeapi.Image) int { return strings.Compare(a.Id, b.Id) })
	return &runtimeapi.ListImagesResponse{Images: images}, nil
}

// RemoveImage forgets an image. One that is unknown counts as removed.
func (r *Runtime) RemoveImage(_ context.Context, in *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if image := r.image(in.GetImage().GetImage()); image != nil {
		delete(r.images, image.Id)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo tells what the images are said to take.
func (r *Runtime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
		UsedBytes:  &runtimeapi.UInt64Value{Value: uint64(len(r.images)) * imageSize},
		InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(r.images))},
	}}}, nil
}
