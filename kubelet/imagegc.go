package kubelet

import (
	"context"
	"errors"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/images"
	"github.com/planekit/planekit/kubelet/internal/machine"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newCollector returns what removes unused images; nil if the runtime cannot.
func (k *Kubelet) newCollector() (*images.Collector, error) {
	service, ok := k.config.Images.(ImageRemover)
	stats, measures := k.config.Runtime.(StatsSource)
	if !ok || !measures {
		return nil, nil
	}
	c := k.config.ImageGC
	return images.New(images.Config{
		Images: service, InUse: k.imagesInUse,
		FileSystem: func(ctx context.Context) (capacity, available int64, err error) {
			fs, err := imageFileSystem(ctx, stats)
			return fs.Capacity, fs.Available, err
		},
		High: c.High, Low: c.Low, MinAge: c.MinAge, MaxAge: c.MaxAge, Keep: c.Keep,
		Event: func(reason, message string) { k.events.Node(corev1.EventTypeWarning, reason, message) },
		Log:   k.log,
	})
}

// imagesInUse returns the images of all containers in the runtime, also those of other kubelets.
func (k *Kubelet) imagesInUse(ctx context.Context) ([]string, error) {
	list, err := k.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range list.GetContainers() {
		names = append(names, c.GetImage().GetImage(), c.GetImageRef(), c.GetImageId())
	}
	return names, nil
}

// imageFileSystem returns the file system of the runtime's images.
func imageFileSystem(ctx context.Context, stats StatsSource) (machine.FileSystem, error) {
	info, err := stats.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return machine.FileSystem{}, err
	}
	errs := []error{errors.New("the runtime names no file system of images that this host has")}
	for _, f := range info.GetImageFilesystems() {
		fs, err := machine.FileSystemOf(f.GetFsId().GetMountpoint())
		if err == nil {
			return fs, nil
		}
		errs = append(errs, err)
	}
	return machine.FileSystem{}, errors.Join(errs...)
}

// reclaim removes unused images if that can relieve the pressure. It reports whether it has removed
// any.
func (e *evictor) reclaim(ctx context.Context, pressure eviction.Pressure) (bool, error) {
	collector := e.kubelet.collector
	if collector == nil || e.kubelet.config.ImageGC.High == 100 || !eviction.Disk(pressure.Threshold.Signal) {
		return false, nil
	}
	if eviction.Pods(pressure.Threshold.Signal) {
		pods, err := machine.FileSystemOf(e.kubelet.config.Root)
		if err != nil {
			return false, err
		}
		if images, err := imageFileSystem(ctx, e.meter.stats); err != nil || images.ID != pods.ID {
			return false, err
		}
	}
	freed, err := collector.RemoveUnused(ctx)
	return freed > 0, err
}
