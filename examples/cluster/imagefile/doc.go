// Package imagefile reads container images from files: archives that `docker save` writes, and OCI image layouts, as
// directories or as tar files, which may be compressed with gzip.
//
//	file, err := imagefile.Open(path)
//	defer file.Close()
//	images, err := file.Images(v1.Platform{OS: "linux", Architecture: "arm64"})
//
// Of an image for several platforms, Images returns the one for the given platform. It reads manifests and
// configurations, whose digests it checks, and leaves layers in the file. A layer's digest is checked where it is stored.
//
// It does not read archives of Docker before 1.10, which have no manifest.
package imagefile
