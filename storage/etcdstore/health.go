package etcdstore

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// alarms tells what an alarm of etcd means to whoever has to act on it.
var alarms = map[pb.AlarmType]string{
	pb.AlarmType_NOSPACE: "the database has reached its quota, so writes are refused until it was compacted and defragmented and the alarm is disarmed",
	pb.AlarmType_CORRUPT: "the member's data differs from the others'",
}

// Healthy returns nil if etcd answers a linearizable read, so that there is a
// quorum, and has raised no alarm. An alarm's error names the member, and
// NOSPACE or CORRUPT. It is for a readiness check every few seconds: asking for
// alarms costs etcd about what a small write does.
func (s *Store) Healthy(ctx context.Context) error {
	if _, err := s.Revision(ctx); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	response, err := s.client.AlarmList(bounded)
	if err != nil {
		return fmt.Errorf("etcd: alarms: %w", translate(ctx, err))
	}
	var raised []error
	for _, a := range response.Alarms {
		raised = append(raised, fmt.Errorf("etcd: member %x: alarm %v: %s", a.MemberID, a.Alarm, alarms[a.Alarm]))
	}
	return errors.Join(raised...)
}
