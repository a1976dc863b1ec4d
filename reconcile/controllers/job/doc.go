// Package job holds the controllers of Jobs: [Controller] runs their pods, and [TTLAfterFinished]
// deletes them when their time to live has ended.
package job
