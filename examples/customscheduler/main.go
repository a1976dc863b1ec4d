// Command customscheduler runs beside the default scheduler on the cluster of KUBECONFIG. It
// schedules the pods whose schedulerName is "apart": at most one of an app on each node, and rather
// on the nodes with few pods. apart.go has both rules.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("KUBECONFIG")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	api, err := kubeconfig.Connect(file)
	if err != nil {
		return err
	}
	defer api.Close()
	scheduler, err := remote.New(api, schedule.Config{
		Name:       "apart",
		Predicates: append(predicates.Default(), apart{}),
		Priorities: []schedule.Weighted{{Priority: schedule.PriorityFunc("FewPods", fewPods)}},
	})
	if err != nil {
		return err
	}
	return scheduler.Run(ctx)
}
