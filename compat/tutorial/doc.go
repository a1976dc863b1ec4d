// Package tutorial runs docs/tutorial.md: its test writes the files of the document to an empty
// folder, runs the commands in their order, and compares what they print with what the document
// shows. The document uses the stock kubectl, which this module builds.
package tutorial
