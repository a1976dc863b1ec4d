package events_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/events"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, events.Resources()) }
