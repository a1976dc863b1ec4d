// Package offline lets a cluster pull images where no public registry can be
// reached. It builds a few images on the spot (pause of its own, nginx and
// busybox from the distribution's packages) and serves them from a registry in
// this process:
//
//	images, err := offline.New(offline.Config{Cache: dir})
//	go images.Run(ctx)
//	// point the container runtime's docker.io and registry.k8s.io at images.URL()
//
// Pulls wait until the images are built. Built images stay in the cache
// directory, so only the first start needs the package mirror. The registry
// listens on a free loopback port and refuses every write.
//
// It needs dpkg-deb and apt-get, that is Debian or Ubuntu.
package offline
