package critest

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func spec(reference string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: reference} }

// pull pulls an image and returns the reference in the answer.
func (e *env) pull(reference string) string {
	e.Helper()
	out, err := e.Runtime.PullImage(e.ctx, &runtimeapi.PullImageRequest{Image: spec(reference)})
	e.succeeds(err, "pull "+reference)
	if out.GetImageRef() == "" {
		e.Errorf("pull %s: the answer has no reference", reference)
	}
	return out.GetImageRef()
}

// removeImage removes an image and expects that it is gone.
func (e *env) removeImage(reference string) {
	e.Helper()
	_, err := e.Runtime.RemoveImage(e.ctx, &runtimeapi.RemoveImageRequest{Image: spec(reference)})
	e.succeeds(err, "remove "+reference)
	if image := e.image(reference); image != nil {
		e.Errorf("after it was removed: %v", image)
	}
}

// listImages lists images; all if reference is empty.
func (e *env) listImages(reference string) []*runtimeapi.Image {
	e.Helper()
	in := &runtimeapi.ListImagesRequest{}
	if reference != "" {
		in.Filter = &runtimeapi.ImageFilter{Image: spec(reference)}
	}
	out, err := e.Runtime.ListImages(e.ctx, in)
	e.succeeds(err, "list images")
	return out.GetImages()
}

// checkPullByTag pulls an image, finds it by each of its names and removes it, twice.
func checkPullByTag(e *env) {
	tagged := e.Images.Tagged
	e.removeImage(tagged)
	for range 2 {
		e.pulled(tagged, e.pull(tagged))
		e.pulled(tagged, e.pull(tagged)) // to pull again changes nothing
		if tags := e.image(tagged).GetRepoTags(); !slices.Contains(tags, tagged) {
			e.Errorf("the tags are %q, want %q", tags, tagged)
		}
		for range 2 {
			e.removeImage(tagged)
		}
		if list := e.listImages(tagged); len(list) != 0 {
			e.Errorf("a removed image is listed: %v", list)
		}
	}
}

// pulled expects an image that can be found by each of its names.
func (e *env) pulled(reference, ref string) {
	e.Helper()
	image := e.image(reference)
	if image.GetId() == "" || image.GetSize() == 0 {
		e.Fatalf("the image %s has no id or no size: %v", reference, image)
	}
	names := slices.Concat([]string{reference, ref, image.GetId()}, image.GetRepoTags(), image.GetRepoDigests())
	for _, name := range names {
		if got := e.image(name).GetId(); got != image.GetId() {
			e.Errorf("the image %s has the id %q by the name %s, want %s", reference, got, name, image.GetId())
		}
		if list := e.listImages(name); len(list) != 1 || list[0].GetId() != image.GetId() {
			e.Errorf("listed by the name %s: %v", name, list)
		}
	}
	for _, digest := range image.GetRepoDigests() {
		if !strings.Contains(digest, "@sha256:") {
			e.Errorf("the image %s has the digest %q", reference, digest)
		}
	}
	if all := e.listImages(""); !slices.ContainsFunc(all, func(i *runtimeapi.Image) bool { return i.GetId() == image.GetId() }) {
		e.Errorf("the image %s is not among all images", reference)
	}
}

func checkPullByDigest(e *env) {
	digested := e.Images.Digested
	e.removeImage(digested)
	e.pulled(digested, e.pull(digested))
	image := e.image(digested)
	if !slices.Contains(image.GetRepoDigests(), digested) || len(image.GetRepoTags()) != 0 {
		e.Errorf("the digests are %q, the tags %q, want only the digest %q", image.GetRepoDigests(), image.GetRepoTags(), digested)
	}
	e.removeImage(image.GetId())
}

// checkPullMissing: the error of a pull that cannot succeed, after which there is no image.
func checkPullMissing(e *env) {
	_, err := e.Runtime.PullImage(e.ctx, &runtimeapi.PullImageRequest{Image: spec(e.Images.Missing)})
	e.failsWith(codes.NotFound, err, "pull an image that the registry does not have")
	if image := e.image(e.Images.Missing); image != nil {
		e.Errorf("after a pull that failed: %v", image)
	}
	for _, reference := range []string{"", "UPPER/case:tag", "a b", "name@sha256:short", strings.Repeat("a", 5000)} {
		_, err := e.Runtime.PullImage(e.ctx, &runtimeapi.PullImageRequest{Image: spec(reference)})
		e.fails(err, "pull "+reference)
	}
}

// checkImageReferences: a container names its image as the image service does.
func checkImageReferences(e *env) {
	sandbox, of := e.sandbox("a")
	id := e.create(sandbox, of, e.containerConfig("a", "run"))
	image := e.image(e.Image)
	if image.GetId() == "" {
		e.Fatalf("the image %s has no id", e.Image)
	}
	s := e.status(id)
	for _, name := range []string{s.GetImageRef(), s.GetImage().GetImage(), s.GetImageId()} {
		// Only newer runtimes report the id of the image.
		if got := e.image(name).GetId(); name != "" && got != image.GetId() {
			e.Errorf("the image of a container is %q, which has the id %q, want %q", name, got, image.GetId())
		}
	}
	for _, item := range e.containers(&runtimeapi.ContainerFilter{Id: id}) {
		if got := e.image(item.GetImageRef()).GetId(); got != image.GetId() {
			e.Errorf("list: the image is %q, which has the id %q, want %q", item.GetImageRef(), got, image.GetId())
		}
	}
	if image := e.image("critest.invalid/never/pulled:1"); image != nil {
		e.Errorf("the status of an image that was never pulled: %v", image)
	}
	if list := e.listImages("critest.invalid/never/pulled:1"); len(list) != 0 && !e.lacks(ImageFilters) {
		e.Errorf("list an image that was never pulled: %v", list)
	}
}

func checkImageFileSystem(e *env) {
	out, err := e.Runtime.ImageFsInfo(e.ctx, &runtimeapi.ImageFsInfoRequest{})
	e.succeeds(err, "image file systems")
	if len(out.GetImageFilesystems()) == 0 {
		e.Errorf("there is no file system")
	}
	for _, fs := range out.GetImageFilesystems() {
		if fs.GetTimestamp() == 0 || fs.GetFsId().GetMountpoint() == "" || fs.GetUsedBytes() == nil || fs.GetInodesUsed() == nil {
			e.Errorf("the file system is %v", fs)
		}
	}
}
